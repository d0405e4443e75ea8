from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.canonical import message_part
from rotoscope.recorder.dialects.messages import MessagesAnswer, chat_messages, parse_request, unmarked
from rotoscope.recorder.dialects.request import NotACall, Request
from rotoscope.recorder.usage import Usage

PATH = "/v1/messages"
MARK = {"cache_control": {"type": "ephemeral"}}
Block = dict[str, Any]


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def thinking(said: str, signature: str = "sig") -> Block:
    return {"type": "thinking", "thinking": said, "signature": signature}


def tool_use(call_id: str, name: str = "read", **arguments: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content} | fields


def tool(name: str) -> Block:
    return {"name": name, "input_schema": {"type": "object"}}


def request(**fields: Any) -> Request:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]} | fields
    return parse_request(PATH, orjson.dumps(body))


def exact_forms(*messages: Block) -> list[bytes]:
    return [message_part(message).exact for message in chat_messages(messages)]


def sent(*content: Block, role: str = "user") -> list[bytes]:
    return exact_forms({"role": role, "content": list(content)})


def sent_back(*content: Block) -> bytes:
    (exact,) = sent(*content, role="assistant")
    return exact


def events_of(block: Block, index: int) -> list[Block]:
    """Return the events by which a block arrives, in two deltas."""
    deltas_of = {
        "text": ("text", "text_delta", block.get("text", "")),
        "thinking": ("thinking", "thinking_delta", block.get("thinking", "")),
        "tool_use": ("partial_json", "input_json_delta", orjson.dumps(block.get("input")).decode()),
    }
    name, kind, deltas = deltas_of.get(block["type"].removeprefix("server_"), ("", "", ""))
    start = block | {
        key: {} if key == "input" else "" for key in ("text", "thinking", "signature", "input") if key in block
    }
    half = len(deltas) // 2
    events = [{"type": "content_block_start", "index": index, "content_block": start}]
    for delta in filter(None, (deltas[:half], deltas[half:])):
        events.append({"type": "content_block_delta", "index": index, "delta": {"type": kind, name: delta}})
    if signature := block.get("signature"):
        signed = {"type": "signature_delta", "signature": signature}
        events.append({"type": "content_block_delta", "index": index, "delta": signed})
    return [*events, {"type": "content_block_stop", "index": index}]


def stream(*events: Any) -> MessagesAnswer:
    """Take in events one second apart."""
    answer = MessagesAnswer()
    for at_s, event in enumerate(events):
        assert not answer.take_event(event if isinstance(event, bytes) else orjson.dumps(event), float(at_s))
    return answer


def streamed(*blocks: Block) -> MessagesAnswer:
    return stream(*(event for index, block in enumerate(blocks) for event in events_of(block, index)))


def whole(*blocks: Block, **fields: Any) -> MessagesAnswer:
    answer = MessagesAnswer()
    answer.take_whole(orjson.dumps({"type": "message", "role": "assistant", "content": blocks} | fields), 1.0)
    return answer


ANSWERS = [
    [text("Hello")],
    [text("a"), text("b")],
    [thinking("hm"), text("Hello")],
    [thinking("hm"), tool_use("t1", path="x", lines=[1, 2])],
    [text("a"), tool_use("t1"), tool_use("t2", "write", b=1, a=2)],
    [thinking("one"), tool_use("t1"), thinking("two"), text("end")],
    [{"type": "redacted_thinking", "data": "blob"}, text("a")],
    [thinking("", "sealed"), text("a")],
    [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}, text("a")],
    [{"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "e"}]}, text("ä€")],
]


@pytest.mark.parametrize("blocks", ANSWERS)
def test_an_answer_is_the_message_that_the_client_sends_back(blocks: list[Block]) -> None:
    assert whole(*blocks).output.sent_back().exact == sent_back(*blocks)


@pytest.mark.parametrize("blocks", ANSWERS)
def test_a_streamed_answer_is_the_message_that_the_client_sends_back(blocks: list[Block]) -> None:
    assert streamed(*blocks).output.sent_back().exact == sent_back(*blocks)


@pytest.mark.parametrize("blocks", [[thinking("hm"), text("a")], [thinking("", "sealed"), tool_use("t1")]])
def test_thinking_that_was_cleared_makes_another_message_of_the_same_text(blocks: list[Block]) -> None:
    kept = whole(*blocks).output.sent_back()
    (cleared,) = [message_part(x) for x in chat_messages([{"role": "assistant", "content": blocks[1:]}])]

    assert (kept.loose, cleared.reasoning_bytes) == (cleared.loose, 0)
    assert kept.reasoning_bytes > 0
    assert kept.exact != cleared.exact


def test_an_empty_answer_has_no_bytes() -> None:
    part = whole().output.sent_back()

    assert (part.text_bytes, part.reasoning_bytes, part.loose) == (0, 0, b"")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model":"m"}', b'{"messages":[]}', b'{"messages":"x"}'])
def test_what_is_no_request_is_told_without_its_content(body: bytes) -> None:
    with pytest.raises(NotACall) as refused:
        parse_request(PATH, body)

    assert str(refused.value) in ("the body is not JSON", "the body has no messages")


def test_models_salts_and_speeds_keep_caches_apart() -> None:
    others: tuple[dict[str, Any], ...] = ({}, {"model": "n"}, {"cache_salt": "a"}, {"speed": "fast"})

    assert len({request(**fields).domain for fields in others}) == 4


def test_cache_marks_are_in_no_form() -> None:
    plain = request(
        system=[text("be")], tools=[tool("read")], messages=[{"role": "user", "content": [result("t1", [text("x")])]}]
    )
    marked = request(
        system=[text("be") | MARK],
        tools=[tool("read") | MARK],
        messages=[{"role": "user", "content": [result("t1", [text("x") | MARK]) | MARK]}],
    )

    assert plain.prompts == marked.prompts


MARKS = st.sampled_from([None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
TEXTS = st.text(st.sampled_from('a"\\{},: '), max_size=6) | st.sampled_from(
    ["cache_control", '"cache_control":{}', "{}"]
)
MARKED = st.recursive(
    TEXTS | st.integers(0, 9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS.filter(lambda key: key != "cache_control"), inner, max_size=3).flatmap(
            lambda fields: (
                st.permutations([*fields.items(), ("cache_control", {"type": "ephemeral"})]).map(dict) | st.just(fields)
            )
        )
    ),
    max_leaves=8,
)


def without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return value


@given(MARKED, MARKS, st.sampled_from([None, (",", ":"), (" , ", " : ")]), st.sampled_from([None, 1]))
def test_a_body_without_its_marks_says_all_else(
    value: Any, mark: Any, separators: tuple[str, str] | None, indent: int | None
) -> None:
    body = json.dumps({"a": value, "cache_control": mark}, separators=separators, indent=indent, ensure_ascii=False)

    assert orjson.loads(unmarked(body.encode())) == {"a": without_marks(value)}


def test_a_body_that_goes_on_from_another_begins_like_it_without_marks() -> None:
    def said(count: int) -> bytes:
        blocks: list[Block] = [{"role": "user", "content": [text(str(number))]} for number in range(count)]
        blocks[-1]["content"][-1] |= MARK
        return orjson.dumps({"messages": blocks, "model": "m"})

    assert unmarked(said(2)).startswith(unmarked(said(1)).removesuffix(b'],"model":"m"}'))
    assert unmarked(b'{"a":1}') == b'{"a":1}'


def test_an_image_is_the_same_whether_it_is_marked_or_not() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}

    assert sent(image) == sent(image | MARK) != sent({"type": "image", "source": {"type": "base64", "data": "BBBB"}})


def test_a_text_is_the_same_as_its_one_block() -> None:
    for role in ("user", "assistant"):
        assert exact_forms({"role": role, "content": "hi"}) == sent(text("hi"), role=role)


def test_blocks_of_the_system_text_are_messages_of_their_own_behind_the_tools() -> None:
    (prompt,) = request(system=[text("a"), text("b")], tools=[tool("read")]).prompts

    assert [message["content"] for message in prompt.messages] == ["a", "b", "hi"]
    assert (prompt.tools_at, prompt.tools is not None) == (0, True)


@pytest.mark.parametrize(
    "fields", [{"thinking": {"type": "enabled", "budget_tokens": 9}}, {"tool_choice": {"type": "any"}}]
)
def test_how_to_think_and_what_to_choose_stand_behind_the_system_text(fields: dict[str, Any]) -> None:
    (plain,), (other,) = request(system="be").prompts, request(system="be", **fields).prompts

    assert plain.tools == other.tools
    assert [*plain.messages[:1], *plain.messages[1:]] == [other.messages[0], other.messages[2]]


def test_sampling_changes_no_prompt() -> None:
    assert request().prompts == request(temperature=1, tool_choice={"type": "auto"}, metadata={"user_id": "x"}).prompts


def test_results_of_tools_are_messages_of_their_own_in_their_place() -> None:
    content = [result("t1", "one"), result("t2", [text("two")], is_error=True), text("go"), text("on")]
    messages = chat_messages([{"role": "user", "content": content}])

    assert [message["role"] for message in messages] == ["tool", "tool", "user"]
    assert [message.get("tool_call_id") for message in messages] == ["t1", "t2", None]
    assert [message["content"] for message in messages] == ["one", "two", ["go", "on"]]


def test_a_result_that_is_an_error_is_another_message() -> None:
    assert sent(result("t1", "x")) != sent(result("t1", "x", is_error=True))
    assert sent(result("t1", "x")) == sent(result("t1", "x", is_error=False)) == sent(result("t1", [text("x")]))


def test_counts_of_the_prompt_that_do_not_overlap_are_added_up() -> None:
    told = {"input_tokens": 3, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}
    answer = stream(
        {"type": "message_start", "message": {"usage": told}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )

    assert answer.usage == Usage(15, 9, 7)
    assert (answer.is_done, answer.output.finish_reason) == (True, "stop")


def test_the_first_count_of_the_output_is_none_of_what_was_delivered() -> None:
    answer = stream({"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}})

    assert answer.usage == Usage(3)


def test_a_prompt_that_is_counted_at_the_end_is_counted() -> None:
    zeros = {"input_tokens": 0, "output_tokens": 0}
    told = {"input_tokens": 6, "output_tokens": 4, "cache_read_input_tokens": 0}
    answer = stream(
        {"type": "message_start", "message": {"usage": zeros}}, {"type": "message_delta", "delta": {}, "usage": told}
    )

    assert answer.usage == Usage(6, 4, 0)


def test_a_count_that_the_end_leaves_out_or_has_as_null_is_that_of_the_start() -> None:
    told = {"input_tokens": 3, "cache_read_input_tokens": 7}
    end = {"input_tokens": 4, "cache_read_input_tokens": None, "output_tokens": 2}
    answer = stream(
        {"type": "message_start", "message": {"usage": told}}, {"type": "message_delta", "delta": {}, "usage": end}
    )

    assert answer.usage == Usage(11, 2, 7)


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": None}, 3])
def test_an_answer_that_tells_no_counts_has_none(usage: Any) -> None:
    assert whole(text("a"), usage=usage).usage in (None, Usage())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("something new", "unknown"),
    ],
)
def test_finish_reasons_are_of_a_closed_set(said: str, reason: str) -> None:
    assert whole(text("a"), stop_reason=said).output.finish_reason == reason


def test_pieces_of_output_are_counted_from_the_first() -> None:
    answer = stream(
        {"type": "message_start", "message": {}},
        {"type": "ping"},
        *events_of(text("Hello"), 0),
        *events_of(tool_use("t1"), 1),
    )

    assert (answer.output.first_at_s, answer.output.chunks) == (3.0, 5)
    assert (answer.output.tool_names, answer.output.tool_ids) == (["read"], ["t1"])


def test_an_index_that_begins_again_begins_another_block() -> None:
    answer = stream(*events_of(text("a"), 0), *events_of(tool_use("t1"), 0), *events_of(tool_use("t2"), 0))

    assert answer.output.sent_back().exact == sent_back(text("a"), tool_use("t1"), tool_use("t2"))


def test_a_delta_without_its_block_begins_one() -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}

    assert stream(delta).output.sent_back().exact == sent_back(text("a"))


def test_an_error_inside_a_stream_is_seen() -> None:
    answer = stream(*events_of(text("a"), 0), {"type": "error", "error": {"type": "overloaded_error", "message": "no"}})

    assert (answer.is_error, answer.is_done) == (True, False)


def test_an_error_in_one_piece_is_seen() -> None:
    answer = MessagesAnswer()
    answer.take_whole(b'{"type":"error","error":{"type":"not_found_error"}}', 0.0)

    assert (answer.is_error, answer.is_done) == (True, False)


@pytest.mark.parametrize("body", [b"", b"<html>", b"3"])
def test_an_answer_that_is_no_json_is_counted(body: bytes) -> None:
    answer = MessagesAnswer()
    answer.take_whole(body, 0.0)

    assert (answer.unread, answer.is_done) == (1, False)


def test_what_is_no_json_in_a_stream_is_counted() -> None:
    answer = stream(b"oops", b"3", b"", b"[DONE]")

    assert (answer.unread, answer.is_done) == (2, True)


def test_nothing_said_is_in_the_repr() -> None:
    answer = streamed(text("CANARY"), tool_use("CANARY", "CANARY", a="CANARY"), thinking("CANARY", "CANARY"))

    assert "CANARY" not in repr(answer)
    assert "CANARY" not in repr(request(system="CANARY", tools=[tool("CANARY")], model="CANARY"))
