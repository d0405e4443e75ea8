from __future__ import annotations

from typing import Any

import orjson
import pytest
from chat_wire import Wire, assistant, user

from rotoscope.recorder import Exchange
from rotoscope.traces import Embedding
from rotoscope.traces.journal import CallOpened, EmbeddingEnded

ANSWER = orjson.dumps({"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 8}})


def embed(wire: Wire, body: Any, *, headers: dict[str, str] | None = None, path: str = "/v1/embeddings") -> Exchange:
    wire.now_s += 1
    return wire.recorder.request(path, orjson.dumps(body), at_s=wire.now_s, headers=headers or {})


def finish(wire: Wire, exchange: Exchange, *, status: int = 200, body: bytes = ANSWER) -> None:
    wire.now_s += 1
    exchange.response(status, at_s=wire.now_s, content_type="application/json")
    forwarded = [exchange.chunk(bytes([byte]), at_s=wire.now_s) for byte in body] + [exchange.end(at_s=wire.now_s)]
    assert b"".join(forwarded) == body


def written(wire: Wire) -> list[EmbeddingEnded]:
    return [record for record in wire.written().records if isinstance(record, EmbeddingEnded)]


def test_an_embedding_is_written_when_its_answer_ends() -> None:
    wire = Wire()
    exchange = embed(wire, {"model": "e", "input": "some text"})
    before = written(wire)
    finish(wire, exchange)

    expected = EmbeddingEnded(at_ms=0, duration_ms=1000, status=200, prompt_tokens=8, text_bytes=9)
    assert (before, written(wire)) == ([], [expected])
    assert exchange.upstream_body == orjson.dumps({"model": "e", "input": "some text"})
    assert not exchange.recorded


@pytest.mark.parametrize("status", [429, 500])
def test_an_embedding_that_failed_is_none(status: int) -> None:
    wire = Wire()
    finish(wire, embed(wire, {"input": "x"}), status=status, body=b'{"error":{}}')

    assert written(wire) == []


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_an_embedding_that_was_broken_off_is_none(how: str) -> None:
    wire = Wire()
    exchange = embed(wire, {"input": "x"})
    exchange.response(200, at_s=wire.now_s)
    exchange.chunk(ANSWER[:5], at_s=wire.now_s)
    getattr(exchange, how)(at_s=wire.now_s)

    assert written(wire) == []


def test_a_run_begins_with_what_is_written_of_it() -> None:
    wire = Wire()
    finish(wire, embed(wire, {"input": "x"}), status=500)
    wire.call([user("go")], assistant("ok"), start=10, end=11)

    (opened,) = [record for record in wire.written().records if isinstance(record, CallOpened)]
    assert opened.at_ms == 0


def test_what_is_no_embedding_is_passed_on() -> None:
    wire = Wire()
    finish(wire, embed(wire, {"model": "e"}))

    assert (wire.recorder.passed, wire.recorder.trouble) == (
        1,
        ["a request was not recorded: the body has nothing to embed"],
    )


def test_embeddings_stand_among_the_calls_of_a_trace() -> None:
    wire = Wire()
    wire.call([user("go")], assistant("ok"), start=0, end=1)
    finish(wire, embed(wire, {"input": "some text"}))
    finish(
        wire, embed(wire, {"content": {"parts": [{"text": "12345678"}]}}, path="/v1/models/e:embedContent"), body=b"{}"
    )
    wire.call([user("else")], assistant("ok"), start=10, end=11)
    trace = wire.close()

    assert [e for e in trace.events if isinstance(e, Embedding)] == [
        Embedding(prompt_tokens=8, at_ms=2000, duration_ms=1000),
        Embedding(prompt_tokens=2, at_ms=4000, duration_ms=1000),
    ]
    assert wire.recorder.trouble == []


def test_a_run_of_embeddings_alone_has_no_trace() -> None:
    wire = Wire()
    finish(wire, embed(wire, {"input": "x"}))

    assert wire.recorder.close() is None
