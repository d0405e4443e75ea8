"""What a request that names a response or a conversation shares with earlier streams."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from chat_wire import sse
from responses_wire import PATH, ResponsesWire, asked, called, put_out, told

from rotoscope.traces.model import Call, Prefix

TOOLS = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]


def edges(wire: ResponsesWire) -> list[Prefix]:
    calls: list[Call] = wire.calls()
    for call in calls:
        assert call.prefix.least <= call.prefix.tokens <= call.prefix.greatest <= call.prompt_tokens
    return [call.prefix for call in calls]


def test_a_known_response_is_gone_on_from() -> None:
    wire = ResponsesWire()
    wire.respond([asked("go")], called("c1"), counts=(20, 10), name="r1", instructions="be", tools=TOOLS)
    wire.respond(
        [put_out("c1", "x")],
        told("ok"),
        counts=(40, 5),
        name="r2",
        previous_response_id="r1",
        instructions="be",
        tools=TOOLS,
    )
    wire.respond([asked("on")], told("ok"), counts=(60, 5), previous_response_id="r2", instructions="be", tools=TOOLS)
    _, second, third = edges(wire)

    assert (second.of, second.tokens, second.source) == (0, 30, "assumed")
    assert (third.of, third.tokens, third.source) == (1, 45, "assumed")


def test_a_response_that_others_go_on_from_too_is_forked() -> None:
    wire = ResponsesWire()
    wire.respond([asked("go")], told("a"), counts=(20, 10), name="r1")
    for text in ("this", "that"):
        wire.respond([asked(text)], told("b"), counts=(40, 5), previous_response_id="r1")
    _, one, other = edges(wire)

    assert (one.of, one.tokens, one.source) == (0, 30, "assumed")
    assert (other.of, other.tokens) == (1, 31)


def test_what_was_named_is_the_same_as_what_is_sent_again() -> None:
    wire = ResponsesWire()
    items = [asked("go"), told("a"), asked("on")]
    wire.respond(items[:1], told("a"), counts=(20, 10), name="r1", instructions="be")
    wire.respond(items[2:], told("b"), counts=(40, 5), previous_response_id="r1", instructions="be")
    wire.respond(items, told("b"), counts=(40, 5), instructions="be")
    again = edges(wire)[2]

    assert (again.of, again.tokens, again.least) == (1, 40, 40)


def test_instructions_are_not_inherited() -> None:
    wire = ResponsesWire()
    items = [asked("go"), told("a"), asked("on")]
    wire.respond(items[:1], told("a"), counts=(20, 10), name="r1", instructions="be brief", tools=TOOLS)
    wire.respond(items[2:], told("b"), counts=(30, 5), name="r2", previous_response_id="r1", instructions="be long")
    wire.respond([*items, told("b"), asked("more")], told("c"), counts=(50, 5), instructions="be long")
    _, other, whole = edges(wire)

    assert other.tokens < 20
    assert (whole.of, whole.tokens, whole.source) == (1, 35, "text")


def test_a_model_of_its_own_has_no_cache_of_another() -> None:
    wire = ResponsesWire()
    wire.respond([asked("go")], told("a"), counts=(20, 10), name="r1")
    wire.respond([asked("on")], told("b"), counts=(30, 5), previous_response_id="r1", model="other")
    wire.respond([asked("go"), told("a"), asked("on")], told("b"), counts=(30, 5), model="other")
    _, other, again = edges(wire)

    assert (other.of, other.tokens) == (None, 0)
    assert (again.of, again.tokens) == (1, 30)


def test_an_unknown_response_may_hold_anything() -> None:
    wire = ResponsesWire()
    wire.respond([asked("go")], told("a"), counts=(20, 10), instructions="be")
    wire.respond([asked("go")], told("a"), counts=(900, 10), previous_response_id="gone", instructions="be")
    opaque = edges(wire)[1]

    assert (opaque.of, opaque.tokens, opaque.source, opaque.least, opaque.greatest) == (None, 0, "opaque", 0, 900)


@pytest.mark.parametrize("counts", [(900, 10), None])
def test_the_same_new_items_behind_unknown_responses_are_no_repetition(counts: tuple[int, int] | None) -> None:
    wire = ResponsesWire()
    for named in ("one", "two", "one"):
        wire.respond([asked("go")], told("a"), counts=counts, previous_response_id=named)
    first, second, third = edges(wire)

    assert [edge.source for edge in (first, second)] == ["opaque", "opaque"]
    assert (third.of, third.tokens) == (0, third.greatest)


def test_an_unknown_history_has_what_its_new_items_leave() -> None:
    wire = ResponsesWire()
    for text in ("x" * 400, "y" * 4000):
        counts = (5000 + len(text) // 4, 10)
        wire.respond([asked(text)], told("a"), counts=counts, previous_response_id="gone", instructions="z" * 400)
    wire.respond([asked("hi")], told("a"), counts=(116, 1), instructions="z" * 400)
    _, second, third = edges(wire)

    assert second.of == 0
    assert second.tokens == pytest.approx(5000, rel=0.05)
    assert third.tokens == pytest.approx(108, abs=6)
    assert third.greatest == 116


def test_what_goes_on_from_an_unknown_history_is_known_from_there() -> None:
    wire = ResponsesWire()
    wire.respond([asked("go")], told("a"), counts=(900, 10), name="r1", previous_response_id="gone")
    wire.respond([asked("on")], told("b"), counts=(930, 10), previous_response_id="r1")
    second = edges(wire)[1]

    assert (second.of, second.tokens, second.source) == (0, 910, "assumed")


@pytest.mark.parametrize("named", ["conv", {"id": "conv"}])
def test_a_conversation_is_gone_on_with(named: Any) -> None:
    wire = ResponsesWire()
    wire.respond([asked("go")], told("a"), counts=(20, 10), conversation=named)
    wire.respond([asked("on")], told("b"), counts=(40, 10), conversation=named)
    first, second = edges(wire)

    assert (first.source, first.greatest) == ("opaque", 20)
    assert (second.of, second.tokens, second.source) == (0, 30, "assumed")


def test_a_stored_prompt_is_the_same_where_it_is_named_again() -> None:
    wire = ResponsesWire()
    for text in ("go", "on"):
        wire.respond([asked(text)], told("a"), counts=(500, 10), prompt={"id": "p1"})
    wire.respond([asked("on")], told("a"), counts=(500, 10), prompt={"id": "p2"})
    first, second, third = edges(wire)

    assert (first.source, third.source) == ("opaque", "opaque")
    assert (second.of, second.greatest) == (0, 500)
    assert second.tokens > 480


def test_a_stream_that_goes_on_when_the_recording_has_ended_is_forwarded() -> None:
    wire = ResponsesWire()
    body = orjson.dumps({"model": "m", "input": [asked("go")], "stream": True})
    exchange = wire.recorder.request(PATH, body, at_s=wire.now_s)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    wire.close()
    data = sse({"type": "response.completed", "response": {"id": "r1", "output": [told("a")]}})

    assert exchange.chunk(data, at_s=wire.now_s) + exchange.end(at_s=wire.now_s) == data
    assert wire.recorder.trouble == []


@pytest.mark.parametrize("how", ["end", "cancelled"])
def test_a_client_may_go_on_from_a_response_before_its_bytes_have_ended(how: str) -> None:
    wire = ResponsesWire()
    body = orjson.dumps({"model": "m", "input": [asked("go")], "stream": True})
    exchange = wire.recorder.request(PATH, body, at_s=wire.now_s)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    usage = {"input_tokens": 20, "output_tokens": 10}
    response = {"id": "r1", "status": "completed", "output": [called("c1")], "usage": usage}
    exchange.chunk(sse({"type": "response.completed", "response": response}), at_s=wire.now_s + 0.5)
    wire.respond([put_out("c1", "x")], told("ok"), counts=(40, 5), previous_response_id="r1")
    getattr(exchange, how)(at_s=wire.now_s + 5)
    trace = wire.close()
    first, second = trace.calls()

    assert (second.prefix.of, second.prefix.tokens, second.prefix.source) == (0, 30, "assumed")
    assert (first.duration_ms, first.finish_reason) == (500, "tool_calls")
    assert (first.branch, second.branch, second.conversation_id) == (None, None, first.conversation_id)
