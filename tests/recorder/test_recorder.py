from __future__ import annotations

import base64
import gc
import hashlib
import logging
from io import BytesIO
from typing import Any, BinaryIO, cast

import orjson
import pytest
from chat_wire import PATH, Wire, assistant, delta, pieces, result, sse, system, tool, tool_call, usage, user
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder import Exchange, Recorder
from rotoscope.recorder.canonical import Part
from rotoscope.recorder.dialects.chat import ChatAnswer, Choice
from rotoscope.recorder.dialects.request import Request
from rotoscope.recorder.names import Names
from rotoscope.recorder.reading import RequestReader
from rotoscope.recorder.run import Run
from rotoscope.recorder.sse import EventFilter
from rotoscope.traces.journal import PartSeen
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.writer import dumps

HI = [user("hi")]
CANARY = "canary7f3a9 lives ünder the stone"


def streaming(wire: Wire, **fields: Any) -> Exchange:
    exchange = wire.ask(HI, stream=True, **fields)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream; charset=utf-8")
    return exchange


def test_a_stream_is_made_to_report_usage_and_the_client_does_not_see_it() -> None:
    wire = Wire()
    exchange = streaming(wire)
    counts = sse({"choices": [], "usage": usage(12, 3, cached=8)})
    forwarded = exchange.chunk(sse(delta({"content": "yes"}, finish="stop")) + counts + sse("[DONE]"), at_s=101.0)
    forwarded += exchange.end(at_s=102.0)

    assert orjson.loads(exchange.upstream_body)["stream_options"] == {"include_usage": True}
    assert forwarded == sse(delta({"content": "yes"}, finish="stop"), "[DONE]")
    (call,) = wire.calls()
    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens) == (12, 3, 8)
    assert (call.ttft_ms, call.duration_ms, call.finish_reason) == (1000.0, 1000.0, "stop")


def test_a_client_that_asks_for_usage_gets_it_and_its_body_as_it_is() -> None:
    wire = Wire()
    exchange = streaming(wire, stream_options={"include_usage": True})
    counts = sse({"choices": [], "usage": usage(12, 3)})

    assert b"include_usage" in exchange.upstream_body
    assert exchange.chunk(counts, at_s=101.0) == counts


def test_a_body_that_is_no_stream_is_sent_as_it_is() -> None:
    recorder = Recorder(JournalWriter(BytesIO()))
    body = b'{ "messages":[{"role":"user","content":"hi"}] }'

    assert recorder.request(PATH, body, at_s=0.0).upstream_body is body


@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_however_a_stream_is_cut_the_recording_is_the_same(cuts: list[int]) -> None:
    def recorded(chunks: list[bytes]) -> tuple[bytes, list[object]]:
        wire = Wire(key=b"k" * 32)
        exchange = streaming(wire)
        forwarded = b"".join(exchange.chunk(chunk, at_s=101.0) for chunk in chunks) + exchange.end(at_s=101.0)
        return forwarded, [record for record in wire.written().records if isinstance(record, PartSeen)]

    piece = {"index": 0, "id": "1", "function": {"name": "read", "arguments": '{"ä":1}'}}
    events = delta({"reasoning": "hm"}), delta({"content": "jä"}), delta({"tool_calls": [piece]})
    data = sse(*events, {"choices": [], "usage": usage(12, 3)}, "[DONE]")

    assert recorded(pieces(data, cuts)) == recorded([data])


def test_a_request_of_another_kind_is_passed_and_counted() -> None:
    recorder = Recorder(JournalWriter(BytesIO()))
    exchange = recorder.request("/v1/models", b"", at_s=0.0)

    assert (exchange.recorded, exchange.upstream_body, recorder.passed) == (False, b"", 1)
    assert exchange.chunk(b"x", at_s=0.0) == b"x"
    assert exchange.end(at_s=0.0) == b""
    assert recorder.trouble == []
    assert recorder.close() is None


def test_a_dialect_that_is_not_recorded_is_told_once() -> None:
    recorder = Recorder(JournalWriter(BytesIO()))
    for _ in range(2):
        recorder.request("/api/chat?x=1", b"{}", at_s=0.0)

    assert recorder.trouble == ["a request that is not recorded was passed on: Ollama's chat"]
    assert recorder.passed == 2


def test_a_request_without_a_body_asks_for_no_answer() -> None:
    recorder = Recorder(JournalWriter(BytesIO()))

    assert not recorder.request(PATH, b"", at_s=0.0).recorded
    assert (recorder.trouble, recorder.passed) == ([], 1)


@pytest.mark.parametrize("body", [b"\xff", b"{}", b'{"messages":[]}', b"[" * 100_000])
def test_a_chat_request_that_makes_no_sense_is_passed_on(body: bytes) -> None:
    recorder = Recorder(JournalWriter(BytesIO()))
    exchange = recorder.request(PATH, body, at_s=0.0)

    assert (exchange.recorded, exchange.upstream_body) == (False, body)
    assert len(recorder.trouble) == 1


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"{", b'{"choices":3,"usage":[]}', b'{"choices":[{"message":{"tool_calls":"x"}}]}', b"\x00" * 10],
)
def test_an_answer_that_makes_no_sense_is_passed_on_and_ends_the_call(answer: bytes) -> None:
    wire = Wire()
    exchange = wire.ask(HI)
    exchange.response(200, at_s=101.0, content_type="application/json")

    assert exchange.chunk(answer, at_s=101.0) == answer
    assert exchange.end(at_s=101.0) == b""
    assert len(wire.calls()) == 1


def test_a_status_other_than_200_is_an_error() -> None:
    wire = Wire()
    wire.refuse(HI, status=500)

    assert [(call.finish_reason, call.completion_tokens) for call in wire.calls()] == [("error", 0)]


def test_a_stream_that_ends_without_saying_so_is_an_error() -> None:
    wire = Wire()
    exchange = streaming(wire)
    exchange.chunk(sse(delta({"content": "a"})), at_s=101.0)
    exchange.end(at_s=101.0)

    assert [call.finish_reason for call in wire.calls()] == ["error"]


def test_an_error_inside_a_stream_is_an_error() -> None:
    wire = Wire()
    exchange = streaming(wire)
    exchange.chunk(sse(delta({"content": "a"}), {"error": {"message": "no"}}, "[DONE]"), at_s=101.0)
    exchange.end(at_s=101.0)

    assert [(call.finish_reason, call.completion_tokens) for call in wire.calls()] == [("error", 1)]


@pytest.mark.parametrize(("method", "reason"), [("cancelled", "cancelled"), ("failed", "error")])
def test_a_call_that_is_broken_off_keeps_what_was_delivered(method: str, reason: str) -> None:
    wire = Wire()
    exchange = streaming(wire)
    exchange.chunk(sse(delta({"content": "a"}), delta({"content": "b"})), at_s=101.0)
    getattr(exchange, method)(at_s=103.0)
    getattr(exchange, method)(at_s=104.0)
    exchange.end(at_s=105.0)
    (call,) = wire.calls()

    assert (call.finish_reason, call.completion_tokens, call.duration_ms) == (reason, 2, 3000.0)


class Unwilling(Names):
    """Lets the recorder fail at each tool."""

    def tool(self, number: int, name: str) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize("ending", ["end", "cancelled", "failed"])
def test_a_call_whose_answer_the_recorder_cannot_take_ends_with_it(ending: str) -> None:
    wire = Wire()
    wire.recorder = Recorder(JournalWriter(BytesIO()), names=Unwilling())
    exchange = streaming(wire)
    exchange.chunk(sse(delta({"tool_calls": [tool_call("x")]})), at_s=101.0)
    getattr(exchange, ending)(at_s=103.0)
    exchange.cancelled(at_s=104.0)
    wire.call([*HI, assistant("a"), user("b")], assistant("c"), start=5, end=6)

    assert len(wire.recorder.trouble) == 1
    assert [(call.branch, call.finish_reason, call.duration_ms) for call in wire.calls()] == [
        (None, "unknown", 3000.0),
        (None, "stop", 1000.0),
    ]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/octet-stream"])
def test_an_answer_of_no_telling_content_type_is_read_as_what_was_asked_for(kind: str) -> None:
    wire = Wire()
    exchange = wire.ask(HI, stream=True)
    exchange.response(200, at_s=101.0, content_type=kind)
    said, hidden = sse(delta({"content": "a"}, finish="stop")), sse({"choices": [], "usage": usage(12, 3)})
    forwarded = exchange.chunk(said + hidden, at_s=101.0) + exchange.end(at_s=101.0)

    assert forwarded == said
    assert [(call.finish_reason, call.completion_tokens) for call in wire.calls()] == [("stop", 3)]


def test_a_whole_answer_to_a_request_for_a_stream_is_read() -> None:
    wire = Wire()
    wire.answer(wire.ask(HI, stream=True), assistant("a"), counts=usage(12, 3))

    assert [(call.finish_reason, call.completion_tokens) for call in wire.calls()] == [("stop", 3)]


def test_a_growing_conversation_is_recorded_as_if_each_body_were_read_whole() -> None:
    wires = Wire(key=b"k" * 32), Wire(key=b"k" * 32)
    messages = [system("s"), user("ä")]
    for turn in range(5):
        for wire, field in zip(wires, ({}, {"seed": turn}), strict=True):
            wire.ask(messages, stream=True, tools=[tool("read")], **field)
        messages = [*messages, assistant(calls=[tool_call(str(turn))]), result(str(turn), "x")]

    assert wires[0].written().records == wires[1].written().records


def test_a_campaign_has_a_proper_name() -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        Recorder(JournalWriter(BytesIO()), campaign="My campaign")


def test_a_closed_recorder_passes_everything_on() -> None:
    wire = Wire()
    exchange = streaming(wire)
    wire.close()

    assert exchange.chunk(sse("x"), at_s=101.0) == sse("x")
    exchange.end(at_s=102.0)
    exchange.measured([1])
    assert not wire.ask(HI).recorded
    assert wire.recorder.close() is None
    assert len(wire.written().records) == 2


class Full:
    """A disk that is full after so many writes."""

    def __init__(self, writes: int) -> None:
        self.data: list[bytes] = []
        self._left = writes

    def write(self, data: bytes) -> int:
        if not self._left:
            raise OSError(28, "No space left on device: " + CANARY)
        self._left -= 1
        self.data.append(data)
        return len(data)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("writes", range(5))
def test_a_full_disk_is_told_once_and_hurts_neither_the_agent_nor_the_trace(
    writes: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(JournalWriter(cast(BinaryIO, disk := Full(writes))))
    forwarded = []
    for turn in range(2):
        body = orjson.dumps({"messages": [user(str(turn))], "stream": True})
        exchange = recorder.request(PATH, body, at_s=float(turn))
        exchange.response(200, at_s=float(turn), content_type="text/event-stream")
        forwarded.append(exchange.chunk(sse(delta({"content": "a"}, finish="stop")), at_s=float(turn)))
        exchange.end(at_s=float(turn))
    trace = recorder.close()

    assert forwarded == [sse(delta({"content": "a"}, finish="stop"))] * 2
    assert trace is not None
    assert len(list(trace.calls())) == 2
    assert recorder.trouble == [
        "the journal cannot be written (No space left on device): the recording goes on in memory"
    ]
    assert len(caplog.records) == 1
    assert CANARY not in caplog.text
    assert len(disk.data) == writes


class Sabotage(Exception):
    """Something that nobody thought of: no input leads to it, so it is put in by hand."""


def broken(*_: object, **__: object) -> Any:
    raise Sabotage(CANARY)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ChatAnswer, "take_event"),
        (ChatAnswer, "take_whole"),
        (Choice, "sent_back"),
        (EventFilter, "feed"),
        (EventFilter, "finish"),
        (RequestReader, "read"),
        (Run, "open"),
        (Run, "write"),
        (Run, "ms"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_whatever_breaks_in_the_recorder_every_byte_is_forwarded_and_it_is_told_once(
    owner: type, name: str, stream: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = sse(delta({"content": "a"}), {"choices": [], "usage": usage(12, 3)}, "[DONE]") + b"data: [DO"
    wire = Wire()
    forwarded = []
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, broken)
        for _ in range(2):
            exchange = wire.ask(HI, stream=stream)
            exchange.response(200, at_s=101.0, content_type="text/event-stream" if stream else "application/json")
            forwarded += [exchange.chunk(piece, at_s=101.0) for piece in pieces(data, range(0, len(data), 7))]
            forwarded.append(exchange.end(at_s=102.0))
            exchange.cancelled(at_s=102.0)

    hidden = sse({"choices": [], "usage": usage(12, 3)})
    assert b"".join(forwarded) in (data * 2, data.replace(hidden, b"") * 2)
    assert len(caplog.records) == len(wire.recorder.trouble) <= 2
    assert CANARY not in caplog.text + str(wire.recorder.trouble)
    wire.call(HI, assistant("b"), counts=usage(5, 5))
    wire.close()


def test_what_was_held_back_when_something_breaks_is_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = streaming(Wire())
    data = sse({"choices": [], "usage": usage(12, 3)})

    assert exchange.chunk(data[:20], at_s=101.0) == b""
    monkeypatch.setattr(ChatAnswer, "take_event", broken)
    assert exchange.chunk(data[20:], at_s=101.0) == data
    assert exchange.chunk(data, at_s=101.0) == data


@pytest.mark.parametrize(("times", "number"), [(1, "1 request"), (2, "2 requests")])
def test_requests_that_were_refused_for_good_are_told_by_their_number(times: int, number: str) -> None:
    wire = Wire()
    for _ in range(times):
        wire.refuse([user("x")], status=400)
    wire.recorder.close()

    assert wire.recorder.trouble == [f"not in the trace: {number} that the server refused"]


def test_a_trace_that_cannot_be_built_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    wire.call(HI, assistant("b"))
    monkeypatch.setattr("rotoscope.recorder.recorder.build_trace", broken)

    assert wire.recorder.close() is None
    assert wire.recorder.trouble == ["the trace could not be built (Sabotage): 'rotoscope recover' tells why"]


def forms(canary: str) -> list[bytes]:
    """Return what text survives as: itself, encoded, hashed without a key."""
    raw = canary.encode()
    escaped = canary.encode("unicode_escape")
    hashed = [hashlib.new(name, raw).digest() for name in ("md5", "sha1", "sha256", "blake2b")]
    encoded = [base64.b64encode(raw), raw.hex().encode(), *(digest.hex().encode() for digest in hashed)]
    return [raw, escaped, raw.split()[0], *encoded, hashlib.blake2b(raw, digest_size=16).hexdigest().encode()]


def careless_run(wire: Wire) -> list[Exchange]:
    """Say the canary in every place of every kind of call."""
    c = CANARY
    said = assistant(c, calls=[tool_call(c, c, orjson.dumps({c: c}).decode())], thinking=c)
    messages = [system(c), {"role": "user", "name": c, "content": [{"type": "text", "text": c}]}, said, result(c, c)]
    fields: dict[str, Any] = {
        "model": c,
        "tools": [tool(c)],
        "user": c,
        "metadata": {c: c},
        "cache_salt": c,
        "response_format": {c: c},
    }
    exchanges = []
    for number, stream in enumerate([True, False] * 4):
        exchange = wire.ask([*messages, user(f"{c} {number}")], stream=stream, **fields)
        exchanges.append(exchange)
        status = 500 if number > 5 else 200
        exchange.response(
            status, at_s=wire.now_s, content_type="text/event-stream" if stream else f"application/json; {c}"
        )
        piece = {"index": 0, "id": c, "function": {"name": c, "arguments": c}}
        if stream:
            events = [delta({"content": c, "reasoning": c}), delta({"tool_calls": [piece]}, finish=c), c, {"error": c}]
            exchange.chunk(sse(*events[: 2 + number % 3]), at_s=wire.now_s)
        else:
            choice = {"index": 0, "message": said, "finish_reason": c}
            body = {"id": c, "choices": [choice], "usage": {c: c, "prompt_tokens": c}, "error": {"message": c}}
            exchange.chunk(orjson.dumps(body), at_s=wire.now_s)
        if number == 2:
            exchange.cancelled(at_s=wire.now_s)
        elif number == 4:
            exchange.failed(at_s=wire.now_s)
        else:
            exchange.end(at_s=wire.now_s)
        exchange.measured([*range(900_000_000, 900_000_050), number])
    exchanges.append(wire.ask([*messages, user("never answered")], **fields))
    exchanges.append(wire.recorder.request(f"/{c}/chat/completions", c.encode(), at_s=wire.now_s, headers={c: c}))
    exchanges.append(wire.recorder.request(f"/v1/{c}", c.encode(), at_s=wire.now_s, headers={c: c}))
    return exchanges


def test_nothing_that_anyone_said_is_written_logged_or_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = b"keykeykey-" + CANARY.encode()[:20]
    wire = Wire(key=key)
    exchanges = careless_run(wire)
    trace = wire.close()
    places = {
        "journal": wire.journal.getvalue(),
        "trace": dumps(trace),
        "log": caplog.text.encode(),
        "trouble": repr(wire.recorder.trouble).encode(),
        "repr": repr([wire.recorder, *exchanges, trace, vars(wire.recorder)]).encode(),
    }

    assert len(list(trace.calls())) > 6
    for place, data in places.items():
        for form in [*forms(CANARY), key, key.hex().encode(), b"9000000"]:
            assert form not in data, place


def test_no_text_outlives_its_call_and_the_key_not_the_recorder() -> None:
    wire = Wire()
    exchanges = careless_run(wire)[:8]
    kept = [vars(exchange) for exchange in exchanges]
    gc.collect()

    assert not [
        thing for thing in gc.get_objects() if isinstance(thing, Part | Request | ChatAnswer | Choice) and _is_of(thing)
    ]
    assert all(CANARY not in repr({k: v for k, v in one.items() if k != "upstream_body"}) for one in kept)
    wire.close()
    assert wire.recorder._run.is_closed
    assert wire.recorder._run.parts._hash is None
    assert wire.recorder._run._records == []


def _is_of(thing: Part | Request | ChatAnswer | Choice) -> bool:
    """Whether an object holds the canary: others may live in other tests."""
    match thing:
        case Part():
            return CANARY.encode() in thing.exact
        case Request():
            return CANARY in str(thing.body)
        case ChatAnswer():
            return any(map(_is_of, thing.outputs))
        case Choice():
            return CANARY in str([thing.content, thing.reasoning, thing.calls])


def test_an_error_page_that_is_no_json_is_nothing_to_tell() -> None:
    wire = Wire()
    exchange = wire.ask([user("a")])
    exchange.response(502, at_s=wire.now_s, content_type="text/html")
    exchange.chunk(b"<html>bad gateway</html>", at_s=wire.now_s)
    exchange.end(at_s=wire.now_s)

    assert wire.recorder.trouble == []
