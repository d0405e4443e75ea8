from __future__ import annotations

from random import Random
from typing import Any

import orjson
from chat_wire import Wire, assistant, result, system, tool_call, usage, user
from chat_worlds import TEMPLATES, TOKENIZERS, World, play
from hypothesis import given, settings
from hypothesis import strategies as st

from rotoscope.recorder.building import build_trace
from rotoscope.traces.journal import Journal
from rotoscope.traces.journal_files import parse_journal
from rotoscope.traces.reader import loads
from rotoscope.traces.validation import validate
from rotoscope.traces.writer import dumps

START = [system("s" * 300), user("a")]
ASKING = assistant("I look.", calls=[tool_call("1", "read"), tool_call("2", "read")])


def run_of_all_kinds() -> Wire:
    """Record a run with tools, a region, a retry, a repeated prompt, choices, a lost call and a measured prompt."""
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(200, 20, cached=0), start=0, end=1)
    one, other = wire.ask([START[0], user("one")], at=2), wire.ask([START[0], user("other")], at=3)
    wire.answer(one, assistant("b"), counts=usage(180, 5), at=4)
    wire.answer(other, assistant("c"), counts=usage(181, 5), at=5)
    carried = [*grown, result("1", "x"), result("2", "y")]
    wire.refuse(carried, status=429, at=6)
    exchange = wire.ask(carried, at=7)
    wire.answer(exchange, assistant("d", thinking="hm"), counts=usage(260, 9, reasoning=3), at=8)
    exchange.measured(range(260))
    wire.answer(wire.ask(START, n=2, at=9), assistant("e"), assistant("f"), counts=usage(200, 6), at=10)
    wire.ask([*carried, assistant("d"), user("and?")], at=11)
    return wire


def test_the_trace_of_a_run_is_valid_and_survives_the_file() -> None:
    trace = run_of_all_kinds().close()

    validate(trace)
    assert loads(dumps(trace)) == trace
    assert [call.finish_reason for call in trace.calls()] == ["tool_calls", *["stop"] * 5, "lost"]


def test_a_journal_gives_the_trace_that_the_recorder_gives() -> None:
    wire = run_of_all_kinds()
    recovered = build_trace(wire.written())

    assert recovered.trace == wire.close()


def test_a_recording_killed_at_any_moment_gives_a_valid_trace_of_what_was_seen() -> None:
    data = run_of_all_kinds().journal.getvalue()
    ends = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    calls = []
    for end in ends:
        trace = build_trace(parse_journal(data[:end])).trace
        if trace is None:
            continue
        validate(trace)
        calls.append([call.finish_reason for call in trace.calls()])

    assert calls[0] == ["lost"]
    assert calls[-1].count("lost") == 1
    assert max(seen.count("lost") for seen in calls) == 2


def test_a_header_alone_is_no_trace() -> None:
    assert build_trace(Wire().written()).trace is None


def test_refused_requests_are_counted() -> None:
    wire = Wire()
    wire.refuse(START, status=400)
    built = build_trace(wire.written())

    assert (built.trace, built.refused) == (None, 1)


def test_the_campaign_is_that_of_the_recording() -> None:
    wire = Wire(campaign="ab" * 8)
    wire.call(START, assistant("b"))

    assert wire.close().campaign == "ab" * 8


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), lies=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 10**6)), max_size=6))
def test_whatever_a_server_claims_to_have_counted_the_trace_is_valid(seed: int, lies: list[tuple[int, int]]) -> None:
    random = Random(seed)
    world = World(random, TEMPLATES["trimmed"], TOKENIZERS["words"], thinks=True, measures=0.3)
    play(world, calls=8, sends_thinking_back=random.random() < 0.5)
    lines = world.journal.getvalue().splitlines(keepends=True)
    ends = [index for index, line in enumerate(lines) if b'"record":"end"' in line]
    for which, tokens in lies:
        index = ends[which % len(ends)]
        lines[index] = changed(lines[index], which, tokens)
    trace = build_trace(parse_journal(b"".join(lines))).trace

    assert trace is not None
    validate(trace)


def changed(line: bytes, which: int, tokens: int) -> bytes:
    """Return an end record with another count in one of its fields."""
    record: dict[str, Any] = orjson.loads(line)
    name = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "at_ms")[which % 4]
    record[name] = float(tokens) if name == "at_ms" else max(1, tokens)
    return orjson.dumps(record) + b"\n"


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_records_that_are_missing_from_the_end_on_leave_a_valid_trace(seed: int, data: st.DataObject) -> None:
    world = World(Random(seed), TEMPLATES["no marks"], TOKENIZERS["pieces"], measures=0.5, reports_usage=0.5)
    play(world, calls=8, sends_thinking_back=True)
    journal = parse_journal(world.journal.getvalue())
    kept = data.draw(st.integers(0, len(journal.records)))
    trace = build_trace(Journal(journal.header, journal.records[:kept])).trace

    if trace is not None:
        validate(trace)
