from __future__ import annotations

from typing import Any

import orjson
import pytest

from rotoscope.recorder.canonical import message_part
from rotoscope.recorder.dialects.request import NotACall, Request
from rotoscope.recorder.dialects.responses import ResponsesAnswer, chat_messages, parse_request
from rotoscope.recorder.usage import Usage

PATH = "/v1/responses"
Item = dict[str, Any]


def message(*texts: str, **fields: Any) -> Item:
    """Return a message of the assistant as a response holds it."""
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": content, "status": "completed"} | fields


def function_call(call_id: str, name: str = "read", arguments: str = "{}", **fields: Any) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments} | fields


def reasoning(*summary: str, **fields: Any) -> Item:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in summary]} | fields


def output(call_id: str, said: Any, kind: str = "function_call_output") -> Item:
    return {"type": kind, "call_id": call_id, "output": said}


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def request(**fields: Any) -> Request:
    return parse_request(PATH, orjson.dumps({"model": "m", "input": "hi"} | fields))


def exact_forms(*items: Item) -> list[bytes]:
    return [message_part(message).exact for message in chat_messages(items)]


def sent_back(*items: Item) -> bytes:
    (exact,) = exact_forms(*items)
    return exact


def stream(*events: Any) -> ResponsesAnswer:
    """Take in events one second apart."""
    answer = ResponsesAnswer()
    for at_s, event in enumerate(events):
        assert not answer.take_event(event if isinstance(event, bytes) else orjson.dumps(event), float(at_s))
    return answer


def whole(*items: Item, **fields: Any) -> ResponsesAnswer:
    answer = ResponsesAnswer()
    answer.take_whole(orjson.dumps({"id": "r1", "status": "completed", "output": items} | fields), 1.0)
    return answer


def last(kind: str, *items: Item, **fields: Any) -> Item:
    return {"type": f"response.{kind}", "response": {"id": "r1", "status": kind, "output": items} | fields}


def events_of(item: Item, index: int) -> list[Item]:
    """Return the events by which an item arrives, its text in two deltas."""
    place = {"output_index": index, "item_id": f"i{index}"}
    bare = {
        key: "" if isinstance(value, str) and key in ("arguments", "input") else value for key, value in item.items()
    }
    bare |= {key: [] for key in ("content", "summary") if key in item}
    events: list[Item] = [{"type": "response.output_item.added", "item": bare | {"id": f"i{index}"}} | place]
    for kind, key in (("function_call_arguments", "arguments"), ("custom_tool_call_input", "input")):
        if key in item:
            events += _deltas(kind, item[key], place)
    for kind, key in (("output_text", "content"), ("reasoning_summary_text", "summary")):
        for number, part in enumerate(item.get(key) or ()):
            name = "summary_index" if key == "summary" else "content_index"
            events += _deltas(kind, part["text"], place | {name: number})
    return [*events, {"type": "response.output_item.done", "item": item | {"id": f"i{index}"}} | place]


def _deltas(kind: str, text: str, place: Item) -> list[Item]:
    half = len(text) // 2
    pieces = [piece for piece in (text[:half], text[half:]) if piece]
    return [{"type": f"response.{kind}.delta", "delta": piece} | place for piece in pieces]


def streamed(*items: Item, without: tuple[str, ...] = ()) -> list[Item]:
    """Return the events of an answer, without those of some kinds."""
    events = [event for index, item in enumerate(items) for event in events_of(item, index)]
    return [event for event in events if not event["type"].endswith(without or ("-",))]


ANSWERS = [
    [message("Hello")],
    [message("a", "b")],
    [message("a"), message("b")],
    [reasoning("hm"), message("Hello")],
    [reasoning("one", "two"), function_call("c1", arguments='{"a": 1}')],
    [message("a"), function_call("c1"), function_call("c2", "write", '{"b":1}')],
    [reasoning(encrypted_content="sealed"), message("a")],
    [{"type": "custom_tool_call", "call_id": "c1", "name": "apply", "input": "*** ä€"}],
    [function_call("c1", namespace="files"), function_call("c2")],
]
OTHERS = [
    [{"type": "local_shell_call", "call_id": "c1", "action": {"command": ["ls"]}, "status": "completed"}],
    [{"type": "web_search_call", "status": "completed", "action": {"query": "x"}}, message("a")],
    [reasoning(id="rs_1"), message("a")],
]


@pytest.mark.parametrize("items", ANSWERS + OTHERS)
def test_an_answer_is_what_the_items_that_are_sent_back_are(items: list[Item]) -> None:
    assert whole(*items).output.sent_back().exact == sent_back(*items)


@pytest.mark.parametrize("items", ANSWERS)
@pytest.mark.parametrize("without", [(), (".delta",), (".added",), (".added", ".delta"), (".delta", ".completed")])
def test_a_streamed_answer_is_what_the_items_that_are_sent_back_are(
    items: list[Item], without: tuple[str, ...]
) -> None:
    answer = stream(*streamed(*items, without=without), last("completed"))

    assert answer.output.sent_back().exact == sent_back(*items)
    assert answer.is_done


@pytest.mark.parametrize("items", [x for x in ANSWERS if "encrypted_content" not in x[0]])
def test_deltas_alone_are_an_answer(items: list[Item]) -> None:
    assert stream(*streamed(*items, without=(".done",))).output.sent_back().exact == sent_back(*items)


def test_a_last_event_alone_is_an_answer() -> None:
    assert stream(last("completed", message("a"))).output.sent_back().exact == sent_back(message("a"))


def test_what_is_answered_is_said_by_the_assistant() -> None:
    anonymous = {key: value for key, value in message("a").items() if key != "role"}

    assert whole(anonymous).output.sent_back().exact == sent_back(message("a"))


def test_what_a_tool_of_the_server_put_out_is_no_output() -> None:
    assert whole(output("c1", "x"), message("a")).output.sent_back().exact == sent_back(message("a"))


def test_deltas_that_tell_no_place_belong_to_the_item_before() -> None:
    deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in "ab"]

    assert stream(*deltas).output.sent_back().exact == sent_back(message("ab"))


def test_deltas_that_tell_their_item_alone_belong_to_it() -> None:
    added = {"type": "response.output_item.added", "item": message() | {"id": "m1"}}
    deltas = [{"type": "response.output_text.delta", "item_id": "m1", "delta": piece} for piece in "ab"]

    assert stream(added, *deltas).output.sent_back().exact == sent_back(message("ab"))


def test_an_item_that_is_done_but_empty_is_what_its_deltas_said() -> None:
    events = streamed(message("ab"), without=(".done",))
    done = {"type": "response.output_item.done", "output_index": 0, "item": message()}

    assert stream(*events, done).output.sent_back().exact == sent_back(message("ab"))


@pytest.mark.parametrize(
    "hidden", [reasoning(encrypted_content="sealed"), reasoning("summary", encrypted_content="s"), reasoning(id="rs_1")]
)
def test_hidden_reasoning_that_was_cleared_makes_another_message_of_the_same_text(hidden: Item) -> None:
    kept = whole(hidden, message("a")).output.sent_back()
    (cleared,) = map(message_part, chat_messages([message("a")]))

    assert (kept.loose, cleared.reasoning_bytes) == (cleared.loose, 0)
    assert kept.reasoning_bytes > 0
    assert kept.exact != cleared.exact
    assert whole(hidden, message("a")).output.alike_bytes() == 1


def test_items_of_the_assistant_that_stand_together_are_one_message() -> None:
    items = [
        user("go"),
        reasoning("hm"),
        function_call("c1"),
        function_call("c2"),
        output("c1", "x"),
        output("c2", "y"),
    ]

    assert [x["role"] for x in chat_messages(items)] == ["user", "assistant", "tool", "tool"]


def test_an_item_that_says_nothing_is_an_empty_message() -> None:
    assert len(exact_forms({"role": "assistant"})) == len(exact_forms({"role": "user"})) == len(exact_forms({})) == 1
    assert exact_forms() == []


def test_a_message_is_the_same_however_it_is_written() -> None:
    easy = {"role": "assistant", "content": "hi"}

    assert sent_back(easy) == sent_back(message("hi")) == sent_back(message("hi", id="m1", status="in_progress"))
    assert exact_forms(user("hi")) == exact_forms({"role": "user", "content": [{"type": "input_text", "text": "hi"}]})


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output", "local_shell_call_output"])
def test_outputs_of_tools_name_their_call(kind: str) -> None:
    (brought,) = chat_messages([output("c1", [{"type": "input_text", "text": "x"}], kind)])

    assert (brought["role"], brought["tool_call_id"], brought["content"]) == ("tool", "c1", "x")


def test_an_image_is_media() -> None:
    image = {"type": "input_image", "image_url": "data:x"}
    (brought,) = chat_messages([{"role": "user", "content": [{"type": "input_text", "text": "see"}, image]}])

    assert brought["content"] == ["see", image]


def test_unknown_items_are_told_apart() -> None:
    items = [
        {"type": "novelty", "id": "1", "x": 1},
        {"type": "novelty", "id": "2", "x": 1},
        {"type": "novelty", "x": 2},
    ]
    forms = [sent_back(item) for item in items]

    assert forms[0] == forms[1] != forms[2]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model":"m"}', b'{"input":[]}', b'{"input":""}', b'{"input":null}']
)
def test_what_is_no_request_is_told_without_its_content(body: bytes) -> None:
    with pytest.raises(NotACall) as refused:
        parse_request(PATH, body)

    assert str(refused.value) in ("the body is not JSON", "the body has no input")


def test_a_text_is_a_message_of_the_user() -> None:
    assert request().prompts == request(input=[user("hi")]).prompts


def test_tools_stand_behind_the_instructions_and_before_the_items() -> None:
    (prompt,) = request(
        instructions="be", tools=[{"type": "function", "name": "f"}], input=[{"role": "developer"}]
    ).prompts

    assert [x["role"] for x in prompt.messages] == ["system", "developer"]
    assert (prompt.tools_at, prompt.tools is not None) == (1, True)


@pytest.mark.parametrize("named", ["conv_1", {"id": "conv_1"}])
def test_what_the_server_keeps_is_named(named: Any) -> None:
    assert request(conversation=named).conversation == "conv_1"
    assert request(previous_response_id="r1").previous_response == "r1"
    assert request(prompt={"id": "p1", "version": "2"}).prompts[0].unseen


def test_models_and_cache_salts_keep_caches_apart() -> None:
    assert len({request().domain, request(model="n").domain, request(cache_salt="a").domain}) == 3


def test_sampling_changes_no_prompt() -> None:
    assert request().prompts == request(temperature=1, store=False, include=["x"], tool_choice="auto").prompts
    assert request().prompts != request(reasoning={"effort": "high"}).prompts


def test_counts_are_read_from_the_last_event() -> None:
    told = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3},
    }

    assert stream(last("completed", usage=told)).usage == whole(usage=told).usage == Usage(9, 4, 0, 3)
    assert stream(last("completed", usage=None)).usage is None


@pytest.mark.parametrize(
    ("answer", "reason", "is_error", "is_done"),
    [
        (last("completed", message("a")), "stop", False, True),
        (last("completed", function_call("c1")), "tool_calls", False, True),
        (last("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length", False, True),
        (last("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter", False, True),
        (last("incomplete"), "unknown", False, True),
        (last("failed", error={"code": "x"}), "unknown", True, True),
        (last("cancelled"), "cancelled", False, True),
        ({"type": "error", "message": "no"}, "unknown", True, False),
        ({"error": {"message": "no"}}, "unknown", True, False),
        ({"type": "response.output_text.delta", "delta": "a"}, "unknown", False, False),
    ],
)
def test_the_last_event_tells_how_an_answer_ended(answer: Item, reason: str, is_error: bool, is_done: bool) -> None:
    seen = stream(answer)

    assert (seen.output.finish_reason, seen.is_error, seen.is_done) == (reason, is_error, is_done)


def test_a_response_is_named_from_its_first_event() -> None:
    assert stream({"type": "response.created", "response": {"id": "r1"}}).response_id == "r1"
    assert whole(id="r2").response_id == "r2"


def test_what_is_answered_in_the_background_was_not_seen() -> None:
    answer = whole(status="queued")

    assert (answer.response_id, answer.is_done, answer.output.finish_reason) == ("", True, "unknown")


def test_pieces_of_output_are_counted_from_the_first() -> None:
    answer = stream(
        {"type": "response.created", "response": {"id": "r1"}}, *streamed(message("Hello"), function_call("c1"))
    )

    assert (answer.output.first_at_s, answer.output.chunks) == (2.0, 5)
    assert (answer.output.tool_names, answer.output.tool_ids) == (["read"], ["c1"])


@pytest.mark.parametrize("body", [b"", b"<html>", b"3"])
def test_an_answer_that_is_no_json_is_counted(body: bytes) -> None:
    answer = ResponsesAnswer()
    answer.take_whole(body, 0.0)

    assert (answer.unread, answer.is_done) == (1, False)


def test_what_is_no_json_in_a_stream_is_counted() -> None:
    assert stream(b"oops", b"3", b"", b"[DONE]").unread == 2


def test_nothing_said_is_in_the_repr() -> None:
    secret = "CANARY"
    items = [message(secret), reasoning(secret), function_call(secret, secret, secret)]
    asked = request(input=[*items, user(secret)], instructions=secret, previous_response_id=secret, conversation=secret)

    assert secret not in repr(stream(*streamed(*items), {"type": "response.created", "response": {"id": secret}}))
    assert secret not in repr(asked)
