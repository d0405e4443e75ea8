from __future__ import annotations

from typing import Any

import pytest

from rotoscope.replayer.simulator.model import Message, ToolCall
from rotoscope.replayer.simulator.tokenizer import encode, vocabulary_size
from rotoscope.replayer.simulator.wire import (
    ChatBody,
    CompletionBody,
    Refusal,
    TokenizeBody,
    messages_of,
    parse,
    parse_json,
)

USER = {"role": "user", "content": "Hi"}


def prompts(prompt: Any) -> list[list[int]]:
    return [ids.tolist() for ids in parse(CompletionBody, {"prompt": prompt}).prompts()]


def chat(**fields: Any) -> ChatBody:
    return parse(ChatBody, {"messages": [USER]} | fields)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ([300, 301], [[300, 301]]),
        ([[300, 301], [302]], [[300, 301], [302]]),
        ("Hi you", [encode("Hi you").tolist()]),
        (["Hi", "you"], [encode("Hi").tolist(), encode("you").tolist()]),
    ],
)
def test_a_prompt_is_text_or_ids_or_a_list_of_either(prompt: Any, expected: list[list[int]]) -> None:
    assert prompts(prompt) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        None, {}, 7, True, [], [[]], "", ["Hi", ""], [1, "a"], ["a", 1], [1.5], [None], [[1], 2], [[1], "a"], [{"a": 1}],
        [-1], [2**40], [2**70], [[1, [2]]],
    ],
)  # fmt: skip
def test_any_other_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(Refusal, match="prompt") as refused:
        prompts(prompt)

    assert refused.value.status == 400
    assert refused.value.body["error"]["param"] == "prompt"


def test_an_id_beyond_the_vocabulary_is_refused() -> None:
    assert prompts([vocabulary_size() - 1])
    with pytest.raises(Refusal, match=f"not in 0..{vocabulary_size() - 1}"):
        prompts([vocabulary_size()])


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b"\xff", b'{"a": NaN}'])
def test_a_body_that_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(Refusal, match=r"not (valid JSON|a JSON object)"):
        parse_json(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 0}, {"max_tokens": "5"}, {"max_tokens": 1.5}, {"min_tokens": -1}, {"n": 0}, {"n": 129},
        {"stream": "yes"}, {"stream_options": []}, {"stop": 3}, {"ignore_eos": 1}, {"messages": []}, {"messages": "Hi"},
        {"messages": [{"content": "no role"}]}, {"messages": [{"role": "king", "content": "Hi"}]}, {"tools": {}},
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_type_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        chat(**fields)

    assert str(refused.value).startswith(next(iter(fields)))


def test_null_stands_for_the_default() -> None:
    body = chat(
        max_tokens=None,
        min_tokens=None,
        n=None,
        stop=None,
        stream=None,
        stream_options=None,
        tools=None,
        ignore_eos=None,
    )

    assert body.output_tokens is None
    assert not body.stream
    assert body.stops == ()


def test_what_is_not_known_is_ignored() -> None:
    assert chat(temperature=0.3, logprobs=True, nobody_knows={"this": 1}).output_tokens is None


def test_a_refusal_does_not_echo_what_was_said() -> None:
    with pytest.raises(Refusal) as refused:
        chat(messages=[{"role": "user", "content": {"secret": "CANARY"}}])

    assert "CANARY" not in str(refused.value)


def test_the_new_name_of_the_limit_goes_first() -> None:
    assert chat(max_completion_tokens=7, max_tokens=9).output_tokens == 7
    assert chat(max_tokens=9).output_tokens == 9


def test_a_text_completion_has_sixteen_tokens_unless_asked() -> None:
    assert parse(CompletionBody, {"prompt": "Hi"}).output_tokens == 16


def test_messages_are_read_with_parts_tools_and_without_reasoning() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"p":  1}'}}
    body = chat(
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Hi "}, {"type": "text", "text": "you"}]},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
            {"role": "tool", "content": "done", "tool_call_id": "call_1"},
        ]
    )

    assert messages_of(body) == (
        Message("user", "Hi you"),
        Message("assistant", "", (ToolCall("ls", '{"p":  1}', "call_1"),)),
        Message("tool", "done", tool_call_id="call_1"),
    )


def test_arguments_that_a_client_has_parsed_are_written_again() -> None:
    call = {"function": {"name": "ls", "arguments": {"p": 1}}}
    body = chat(messages=[{"role": "assistant", "tool_calls": [call]}])

    assert messages_of(body)[0].tool_calls[0].arguments == '{"p":1}'


def test_one_stop_string_or_several() -> None:
    assert chat(stop="a").stops == ("a",)
    assert chat(stop=["a", "b"]).stops == ("a", "b")


def test_tokenizing_wants_a_text() -> None:
    assert parse(TokenizeBody, {"prompt": "a"}).text() == "a"
    assert parse(TokenizeBody, {"content": "b"}).text() == "b"
    with pytest.raises(Refusal, match="neither"):
        parse(TokenizeBody, {"model": "m"}).text()
