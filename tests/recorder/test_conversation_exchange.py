from __future__ import annotations

from typing import Any

import orjson
import pytest
from chat_wire import pieces, sse
from responses_wire import ResponsesWire, asked, told

from rotoscope.recorder.conversation_exchange import LARGEST_BYTES, begins_empty, changed_conversation
from rotoscope.traces.model import PrefixSource

PATH = "/v1/conversations"


def begin(wire: ResponsesWire, body: Any = None, *, answer: bytes = b'{"id":"conv_1"}', status: int = 200) -> None:
    """Begin a conversation at the server, with an answer that comes in pieces."""
    exchange = wire.recorder.request(PATH, orjson.dumps({} if body is None else body), at_s=wire.now_s)
    exchange.response(status, at_s=wire.now_s)
    forwarded = [exchange.chunk(piece, at_s=wire.now_s) for piece in pieces(answer, [3, 9])]
    assert b"".join([*forwarded, exchange.end(at_s=wire.now_s)]) == answer
    assert not exchange.recorded


def first_source(wire: ResponsesWire) -> PrefixSource:
    """Make the first call in the conversation; return how its prefix is known."""
    wire.respond([asked("go")], told("a"), counts=(20, 5), conversation="conv_1", instructions="be")
    (call,) = wire.calls()
    return call.prefix.source


@pytest.mark.parametrize("body", [{}, {"metadata": {"a": "b"}}, {"items": []}, {"items": None}])
def test_a_conversation_that_begins_empty_has_no_unseen_history(body: Any) -> None:
    wire = ResponsesWire()
    begin(wire, body)

    assert first_source(wire) != "opaque"
    assert (wire.recorder.passed, wire.recorder.trouble) == (1, [])


@pytest.mark.parametrize(
    ("body", "answer", "status"),
    [
        ({"items": [asked("before")]}, b'{"id":"conv_1"}', 200),
        ({}, b'{"id":"conv_1"}', 400),
        ({}, b'{"id":"conv_2"}', 200),
        ({}, b'{"id":3}', 200),
        ({}, b'["conv_1"]', 200),
        ({}, b'{"id":"conv_1","x":"' + b"x" * LARGEST_BYTES + b'"}', 200),
        ({}, b"", 200),
    ],
)
def test_a_conversation_of_which_less_is_known_may_have_one(body: Any, answer: bytes, status: int) -> None:
    wire = ResponsesWire()
    begin(wire, body, answer=answer, status=status)

    assert first_source(wire) == "opaque"


@pytest.mark.parametrize(
    ("path", "body", "is_changed"),
    [
        ("/v1/conversations/conv_1/items", b'{"items":[{}]}', True),
        ("/v1/conversations/conv_1/items/i1", b"", True),
        ("/v1/conversations/conv_1/items", b"", False),
        ("/v1/conversations/conv_1", b"", False),
        ("/v1/conversations/conv_2/items", b'{"items":[{}]}', False),
    ],
)
def test_items_that_are_changed_beside_all_responses_are_unseen(path: str, body: bytes, is_changed: bool) -> None:
    wire = ResponsesWire()
    begin(wire)
    wire.recorder.request(path, body, at_s=wire.now_s)
    assert (first_source(wire) == "opaque") == is_changed

    wire = ResponsesWire()
    wire.respond([asked("go")], told("a"), counts=(20, 5), conversation="conv_1")
    wire.recorder.request(path, body, at_s=wire.now_s)
    wire.respond([asked("on")], told("b"), counts=(40, 5), conversation="conv_1")
    assert (wire.calls()[1].prefix.source == "opaque") == is_changed


def test_paths_tell_what_is_about_conversations() -> None:
    assert begins_empty("/openai/v1/conversations", b"{}")
    assert not begins_empty("/v1/conversations", b"")
    assert not begins_empty("/v1/conversations", b"[")
    assert not begins_empty("/v1/conversations/c1", b"{}")
    assert changed_conversation("/v1/chat/completions", b"{}") is None


def test_a_prompt_of_nothing_is_passed_on() -> None:
    wire = ResponsesWire()
    begin(wire)
    exchange = wire.recorder.request("/v1/responses", b'{"model":"m","conversation":"conv_1"}', at_s=wire.now_s)

    assert not exchange.recorded
    assert wire.recorder.trouble == ["a request was not recorded: the prompt is empty"]


def test_a_conversation_that_begins_when_the_recording_has_ended_is_forwarded() -> None:
    wire = ResponsesWire()
    exchange = wire.recorder.request(PATH, b"{}", at_s=wire.now_s)
    exchange.response(200, at_s=wire.now_s)
    assert wire.recorder.close() is None

    assert exchange.chunk(b'{"id":"c"}', at_s=wire.now_s) == b'{"id":"c"}'
    assert exchange.end(at_s=wire.now_s) == b""


def refuse(wire: ResponsesWire, text: str, *, status: int) -> None:
    """Let a call in the conversation fail before its answer begins."""
    body = orjson.dumps({"model": "m", "input": [asked(text)], "conversation": "conv_1"})
    exchange = wire.recorder.request("/v1/responses", body, at_s=wire.now_s)
    exchange.response(status, at_s=wire.now_s, content_type="application/json")
    exchange.chunk(b'{"error":{"message":"no"}}', at_s=wire.now_s)
    exchange.end(at_s=wire.now_s)


def test_what_was_refused_is_not_in_the_conversation() -> None:
    wire = ResponsesWire()
    begin(wire, {})
    wire.respond([asked("go")], told("a"), conversation="conv_1")
    refuse(wire, "on", status=500)
    wire.respond([asked("on")], told("b"), conversation="conv_1")
    calls = wire.calls()

    assert [(call.attempts, call.message_index) for call in calls] == [(None, 1), (2, 3)]
    assert calls[1].prefix.source == "assumed"


def test_an_answer_that_broke_off_leaves_nothing_known_of_the_conversation_but_who_goes_on() -> None:
    wire = ResponsesWire()
    begin(wire, {})
    wire.respond([asked("go")], told("a"), conversation="conv_1")
    body = orjson.dumps({"model": "m", "input": [asked("on")], "conversation": "conv_1", "stream": True})
    broken = wire.recorder.request("/v1/responses", body, at_s=wire.now_s)
    broken.response(200, at_s=wire.now_s, content_type="text/event-stream")
    broken.chunk(sse({"type": "response.output_text.delta", "output_index": 0, "delta": "b"}), at_s=wire.now_s)
    broken.cancelled(at_s=wire.now_s)
    wire.respond([asked("and")], told("c"), conversation="conv_1")
    last = wire.calls()[-1]

    assert (last.conversation_id, last.link, last.prefix.source) == (0, "response", "opaque")


def test_of_two_answers_at_once_the_conversation_may_hold_both() -> None:
    wire = ResponsesWire()
    begin(wire, {})
    wire.respond([asked("go")], told("a"), conversation="conv_1")
    body = orjson.dumps({"model": "m", "input": [asked("slow")], "conversation": "conv_1"})
    slow = wire.recorder.request("/v1/responses", body, at_s=wire.now_s)
    wire.respond([asked("quick")], told("b"), conversation="conv_1")
    slow.response(200, at_s=wire.now_s, content_type="application/json")
    slow.chunk(orjson.dumps({"status": "completed", "output": [told("c")]}), at_s=wire.now_s)
    slow.end(at_s=wire.now_s)
    wire.respond([asked("and")], told("d"), conversation="conv_1")
    calls = wire.calls()

    assert calls[1].prefix.source == "assumed"
    assert (calls[3].link, calls[3].prefix.source) == ("response", "opaque")
