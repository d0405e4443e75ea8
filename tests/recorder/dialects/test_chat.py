from __future__ import annotations

from typing import Any

import orjson
import pytest
from chat_wire import PATH, assistant, delta, sse, tool, tool_call, usage, user

from rotoscope.recorder.canonical import message_part
from rotoscope.recorder.dialects.chat import ChatAnswer, Choice, parse_request
from rotoscope.recorder.dialects.request import NotACall, Request
from rotoscope.recorder.sse import event_data
from rotoscope.recorder.usage import Usage


def request(**fields: Any) -> Request:
    return parse_request(PATH, orjson.dumps({"model": "m", "messages": [user("hi")]} | fields))


def stream(*events: Any, choices: int = 1) -> ChatAnswer:
    """Take in events one second apart."""
    answer = ChatAnswer([Choice() for _ in range(choices)])
    for at_s, event in enumerate(events):
        answer.take_event(event_data(sse(event)), float(at_s))
    return answer


def exact_form(message: dict[str, Any]) -> bytes:
    """Return the exact form of a message that a client sends back."""
    return message_part(message).exact


def calls_in(*deltas: list[dict[str, Any]]) -> list[list[str]]:
    return stream(*(delta({"tool_calls": fields}) for fields in deltas)).outputs[0].calls


def part(**fields: Any) -> dict[str, Any]:
    """Return a piece of a tool call; name and arguments are those of its function."""
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return fields | {"function": function}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model":"m"}', b'{"messages":[]}', b'{"messages":"x"}'])
def test_what_is_no_chat_is_told_without_its_content(body: bytes) -> None:
    with pytest.raises(NotACall) as refused:
        parse_request(PATH, body)

    assert str(refused.value) in ("the body is not JSON", "the body has no messages")


def test_models_and_cache_salts_keep_caches_apart() -> None:
    assert len({request().domain, request(model="n").domain, request(cache_salt="a").domain}) == 3


def test_sampling_changes_no_prompt() -> None:
    assert request().prompts[0].tools == request(temperature=1, tool_choice="auto", max_tokens=3).prompts[0].tools


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [tool("read")]},
        {"reasoning_effort": "high"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_what_a_template_may_read_is_part_of_the_prompt(fields: dict[str, Any]) -> None:
    assert request().prompts[0].tools is None
    assert request(**fields).prompts[0].tools is not None


def test_a_request_that_forbids_its_tools_is_another_prompt() -> None:
    assert (
        request(tools=[tool("a")]).prompts[0].tools != request(tools=[tool("a")], tool_choice="none").prompts[0].tools
    )


@pytest.mark.parametrize(("n", "choices"), [(None, 1), (1, 1), (3, 3), (10**9, 128), ("x", 1)])
def test_choices_are_counted_within_reason(n: Any, choices: int) -> None:
    assert request(n=n).choices == choices


def test_deltas_become_an_answer() -> None:
    answer = stream(
        delta({"role": "assistant", "content": ""}),
        delta({"reasoning_content": "hm"}),
        delta({"content": "Hel"}),
        delta({"content": "lo"}),
        delta({}, finish="stop"),
        {"choices": [], "usage": usage(9, 4, cached=0, reasoning=1)},
        "[DONE]",
    )
    (choice,) = answer.outputs

    assert ("".join(choice.reasoning), "".join(choice.content)) == ("hm", "Hello")
    assert choice.sent_back().exact == exact_form(assistant("Hello", thinking="hm"))
    assert (choice.finish_reason, choice.chunks, choice.first_at_s) == ("stop", 3, 1.0)
    assert answer.usage == Usage(9, 4, cached_tokens=0, reasoning_tokens=1)
    assert answer.is_done


def test_only_an_event_that_is_nothing_but_usage_is_withheld() -> None:
    answer = ChatAnswer([Choice()])

    assert answer.take_event(b'{"choices":[],"usage":{"prompt_tokens":1}}', 0)
    assert not answer.take_event(b'{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}', 0)
    assert not answer.take_event(b'{"choices":[],"usage":null}', 0)
    assert not answer.take_event(b'{"choices":[],"usage":{},"error":{}}', 0)
    assert not answer.take_event(b'{"choices":[],"prompt_filter_results":[]}', 0)


def test_the_last_usage_of_a_stream_counts() -> None:
    first = delta({"content": "a"}) | {"usage": usage(5, 1)}
    second = delta({"content": "b"}) | {"usage": usage(5, 2)}

    assert stream(first, second).usage == Usage(5, 2)


def test_a_usage_that_says_nothing_takes_nothing_back() -> None:
    first = delta({"content": "a"}) | {"usage": usage(5, 1, cached=4)}
    second = {"choices": [], "usage": {"completion_tokens": 2}}

    assert stream(first, second).usage == Usage(5, 2, 4)


def test_tool_calls_are_put_together_by_index() -> None:
    calls = calls_in(
        [part(index=0, id="a", name="read", arguments="")],
        [part(index=1, id="b", name="write", arguments='{"x":')],
        [part(index=0, arguments="{}")],
        [part(index=1, arguments="1}")],
    )

    assert calls == [["a", "read", "{}"], ["b", "write", '{"x":1}']]


def test_a_function_call_of_the_old_kind_is_a_tool_call() -> None:
    answer = stream(
        delta({"content": None, "function_call": {"name": "read", "arguments": ""}}),
        delta({"function_call": {"arguments": "{}"}}, finish="function_call"),
    )
    (choice,) = answer.outputs
    sent = {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}}

    assert (choice.tool_names, choice.finish_reason, choice.chunks) == (["read"], "tool_calls", 2)
    assert choice.sent_back().exact == exact_form(sent)


def test_another_id_at_the_same_index_is_another_tool_call() -> None:
    calls = calls_in(
        [part(index=0, id="a", name="read", arguments="{}")],
        [part(index=0, id="b", name="read", arguments="{")],
        [part(index=0, id="b", arguments="}")],
    )

    assert calls == [["a", "read", "{}"], ["b", "read", "{}"]]


def test_tool_calls_without_an_index_begin_with_their_id() -> None:
    calls = calls_in(
        [part(id="a", name="read", arguments="{")],
        [part(arguments="}")],
        [part(id="b", name="write", arguments="{}")],
    )

    assert calls == [["a", "read", "{}"], ["b", "write", "{}"]]


def test_tool_calls_without_an_index_or_id_begin_with_their_name() -> None:
    calls = calls_in([part(name="a", arguments="{")], [part(arguments="}")], [part(name="b", arguments="{}")])

    assert calls == [["", "a", "{}"], ["", "b", "{}"]]


def test_whole_tool_calls_without_an_index_stay_apart() -> None:
    message = assistant(calls=[tool_call("a"), tool_call("b", "write")])
    answer = ChatAnswer([Choice()])
    answer.take_whole(orjson.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}), 0.0)

    assert answer.outputs[0].calls == [["a", "read", "{}"], ["b", "write", "{}"]]
    assert answer.outputs[0].tool_names == ["read", "write"]
    assert answer.outputs[0].sent_back().exact == exact_form(message)


def test_whole_tool_calls_without_ids_stay_apart() -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    answer = ChatAnswer([Choice()])
    answer.take_whole(orjson.dumps({"choices": [{"message": assistant(calls=calls)}]}), 0.0)

    assert answer.outputs[0].calls == [["", "a", "{}"], ["", "b", "{}"]]


def test_choices_of_one_request_are_told_apart() -> None:
    answer = stream(
        delta({"content": "a"}), delta({"content": "b"}, index=1), delta({}, index=1, finish="length"), choices=2
    )

    assert [choice.content for choice in answer.outputs] == [["a"], ["b"]]
    assert [choice.finish_reason for choice in answer.outputs] == ["unknown", "length"]


@pytest.mark.parametrize("choice", [{"index": 7}, {"index": "x"}, {"index": -1}, 3, None])
def test_a_choice_that_was_not_asked_for_is_left_out(choice: Any) -> None:
    assert stream({"choices": [choice]}).outputs[0].chunks == 0


@pytest.mark.parametrize(
    ("said", "reason"),
    [("stop", "stop"), ("function_call", "tool_calls"), ("max_tokens", "length"), ("something new", "unknown")],
)
def test_finish_reasons_are_of_a_closed_set(said: str, reason: str) -> None:
    assert stream(delta({}, finish=said)).outputs[0].finish_reason == reason


def test_an_error_inside_a_stream_is_seen() -> None:
    assert stream(delta({"content": "a"}), {"error": {"message": "no"}}).is_error


def test_an_error_of_null_is_none() -> None:
    answer = stream(delta({"content": "a"}) | {"error": None})

    assert not answer.is_error
    assert answer.take_event(b'{"choices":[],"usage":{"prompt_tokens":5},"error":null}', 1.0)


def test_an_error_beside_the_usage_is_seen_and_forwarded() -> None:
    answer = ChatAnswer([Choice()])

    assert not answer.take_event(b'{"choices":[],"usage":{"prompt_tokens":5},"error":{"message":"no"}}', 1.0)
    assert (answer.is_error, answer.usage) == (True, Usage(5))


def test_what_is_no_json_is_counted() -> None:
    assert stream("oops", delta({"content": "a"}), "3").unread == 2


@pytest.mark.parametrize("body", [b"", b"<html>", b"3"])
def test_an_answer_that_is_no_json_is_counted(body: bytes) -> None:
    answer = ChatAnswer([Choice()])
    answer.take_whole(body, 0.0)

    assert (answer.unread, answer.is_done) == (1, False)


@pytest.mark.parametrize(
    ("thinking", "text", "alike"),
    [("", "abc", 0), ("xyz", "abc", 0), ("ab d", "ab  c", 3), ("ä", "äx", 2), ("äx", "ä", 2)],
)
def test_thinking_and_answer_are_compared_at_their_start(thinking: str, text: str, alike: int) -> None:
    assert stream(delta({"reasoning": thinking}), delta({"content": text})).outputs[0].alike_bytes() == alike


def test_nothing_said_is_in_the_repr() -> None:
    answer = stream(delta({"content": "CANARY", "tool_calls": [part(index=0, id="CANARY", name="CANARY")]}))

    assert "CANARY" not in repr(answer)
    assert "CANARY" not in repr(request(messages=[user("CANARY")], tools=[tool("CANARY")], model="CANARY"))


@pytest.mark.parametrize("calls", [3, 0.5, "x", {"id": "a"}, [3]])
def test_tool_calls_that_are_no_list_of_objects_are_none(calls: Any) -> None:
    assert stream(delta({"content": "a", "tool_calls": calls})).outputs[0].calls == []
    assert exact_form({"role": "assistant", "content": "a", "tool_calls": calls}) == exact_form(assistant("a"))
