"""Texts that are handed out to be counted: each once, none written, none kept, and nothing hurts the agent."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from chat_wire import Wire, assistant, delta, result, sse, system, tool, tool_call, usage, user

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.counting import MOST_CHARS, Counted, Uncounted
from rotoscope.traces.journal import PartCounted, PartSeen
from rotoscope.traces.model import Message
from rotoscope.traces.writer import dumps

CANARY = "canary7f3a9 lives ünder the stone"


class Words:
    """Takes each word for a token."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def said_everywhere(wire: Wire) -> None:
    """Make calls that say the canary wherever there is text."""
    said = assistant(CANARY, calls=[tool_call("c", CANARY, f'{{"a": "{CANARY}"}}')], thinking=CANARY)
    grown = wire.call([system(CANARY), user(CANARY)], said, counts=usage(50, 20), tools=[tool(CANARY)])
    wire.call([*grown, result("c", CANARY)], assistant(CANARY), tools=[tool(CANARY)])
    exchange = wire.ask([*grown, user(CANARY)], stream=True)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    exchange.chunk(sse(delta({"content": CANARY, "reasoning": CANARY})), at_s=wire.now_s)
    exchange.cancelled(at_s=wire.now_s)


TOOL = {"name": "f"}
DIALECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/v1/chat/completions": (
        {"messages": [system("a b c"), user("d e")], "tools": [TOOL]},
        {"choices": [{"index": 0, "message": assistant("x y z"), "finish_reason": "stop"}]},
    ),
    "/v1/messages": (
        {"max_tokens": 9, "system": "a b c", "messages": [user("d e")], "tools": [TOOL]},
        {"role": "assistant", "content": [{"type": "text", "text": "x y z"}], "stop_reason": "end_turn"},
    ),
    "/v1/responses": (
        {"instructions": "a b c", "input": "d e", "tools": [TOOL]},
        {
            "id": "r",
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x y z"}]}],
        },
    ),
    "/v1beta/models/g:generateContent": (
        {
            "systemInstruction": {"parts": [{"text": "a b c"}]},
            "contents": [{"role": "user", "parts": [{"text": "d e"}]}],
            "tools": [TOOL],
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "x y z"}]}, "finishReason": "STOP"}]},
    ),
    "/v1/completions": (
        {"prompt": "a b c d e"},
        {"choices": [{"index": 0, "text": " x y z", "finish_reason": "stop"}]},
    ),
}


def parts_of(texts: Sequence[Uncounted]) -> list[int]:
    return [text.part for text in texts]


def counted_messages(wire: Wire) -> set[str | None]:
    trace = wire.close()
    source = trace.token_source
    return {event.tokens_source or source for event in trace.events if isinstance(event, Message)}


def test_every_text_is_handed_out_once() -> None:
    wire = Wire(counter=Words())
    grown = wire.call([system("s"), user("a")], assistant("b", thinking="t"))
    first = wire.recorder.uncounted()
    wire.call([*grown, user("c")], assistant("d"))

    assert [(x.text, x.reasoning) for x in first] == [("s", ""), ("a", ""), ("b", "t")]
    assert [x.text for x in wire.recorder.uncounted()] == ["c", "d"]
    assert wire.recorder.uncounted() == []


def test_calls_and_schemas_are_counted_as_templates_write_them() -> None:
    wire = Wire(counter=Words())
    wire.call([user("a")], assistant("I look.", calls=[tool_call("1", "read", '{"path":"x"}')]), tools=[tool("read")])

    texts = {x.part: x.text for x in wire.recorder.uncounted()}
    assert list(texts.values()) == [
        '{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}',
        "a",
        'I look.{"name": "read", "arguments": {"path":"x"}}',
    ]


@pytest.mark.parametrize("path", DIALECTS)
def test_prompts_and_outputs_are_counted_in_every_dialect(path: str) -> None:
    request, answer = DIALECTS[path]
    wire = Wire(counter=Words())
    exchange = wire.recorder.request(path, orjson.dumps({"model": "m"} | request), at_s=wire.now_s)
    exchange.response(200, at_s=wire.now_s, content_type="application/json")
    exchange.chunk(orjson.dumps(answer), at_s=wire.now_s)
    exchange.end(at_s=wire.now_s)
    wire.count()
    trace = wire.close()
    [call] = trace.calls()

    plain = path.endswith("/v1/completions")
    assert trace.token_source == "tokenizer:words"
    assert (call.prompt_tokens_source, call.completion_tokens_source) == (None, None)
    assert call.prompt_tokens == (5 if plain else 3 + 2 + 2 + 3 * 4 + 3)
    assert call.completion_tokens == 3


def test_without_a_tokenizer_no_text_waits() -> None:
    wire = Wire()
    said_everywhere(wire)

    assert wire.recorder.uncounted() == []


def test_what_has_media_is_not_handed_out() -> None:
    wire = Wire(counter=Words())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    wire.call([{"role": "user", "content": [image, {"type": "text", "text": "look"}]}], assistant("x"))

    assert [x.text for x in wire.recorder.uncounted()] == ["x"]


def test_counted_texts_are_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wire = Wire(counter=Words())
    said_everywhere(wire)
    shown = repr([wire.recorder, vars(wire.recorder), vars(wire.recorder._run), wire.recorder._run.waiting])
    wire.count()
    trace = wire.close()
    written = [wire.journal.getvalue(), dumps(trace), caplog.text.encode(), shown.encode()]
    gc.collect()

    assert b'"counted"' in written[0]
    assert not [data for data in written for form in (CANARY.encode(), b"canary7f3a9") if form in data]
    assert not [x for x in gc.get_objects() if isinstance(x, Uncounted) and "canary7f3a9" in x.text + x.reasoning]


def test_texts_that_nobody_counts_are_dropped_when_the_recorder_closes() -> None:
    wire = Wire(counter=Words())
    said_everywhere(wire)
    wire.close()

    assert wire.recorder.uncounted() == []


def test_a_journal_gives_the_same_trace() -> None:
    wire = Wire(counter=Words())
    said_everywhere(wire)
    wire.count()
    journal = wire.written()

    counted = [record.part for record in journal.records if isinstance(record, PartCounted)]
    assert counted == [record.part for record in journal.records if isinstance(record, PartSeen)]
    assert build_trace(journal).trace == wire.close()


def test_what_was_not_counted_in_time_is_an_estimate() -> None:
    wire = Wire(counter=Words())
    said_everywhere(wire)

    assert counted_messages(wire) == {"estimate"}


def test_counts_that_come_too_late_are_dropped() -> None:
    wire = Wire(counter=Words())
    said_everywhere(wire)
    texts = wire.recorder.uncounted()
    wire.close()
    before = wire.journal.getvalue()
    wire.recorder.counted([Counted(part, 1) for part in parts_of(texts)])

    assert wire.journal.getvalue() == before
    assert wire.recorder.trouble == []


@pytest.mark.parametrize("text", ["word " * MOST_CHARS, "x" * 5000])
def test_a_text_that_is_too_long_to_be_counted_whole_is_an_estimate(text: str) -> None:
    wire = Wire(counter=Words())
    wire.call([user("a b c"), user(text)], assistant("x"))
    wire.count()
    trace = wire.close()
    messages = [event for event in trace.events if isinstance(event, Message)]

    assert trace.token_source == "tokenizer:words"
    assert [message.tokens_source for message in messages] == [None, "estimate"]
    assert [call.prompt_tokens_source for call in trace.calls()] == ["estimate"]


def test_a_full_disk_hurts_no_count() -> None:
    wire = Wire(counter=Words())
    wire.call([user("a b c")], assistant("x"))
    wire.journal.close()
    wire.count()

    assert wire.recorder.trouble == ["the journal cannot be written (ValueError): the recording goes on in memory"]
    trace = wire.recorder.close()
    assert trace is not None
    assert trace.token_source == "tokenizer:words"
