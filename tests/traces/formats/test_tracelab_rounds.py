from __future__ import annotations

import math

import pytest
from foreign_events import FIRST, iso, tracelab, tracelab_round, tracelab_tool
from foreign_traces import Json

from rotoscope.traces import TraceError
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab_rounds import Round, Rounds, read_rounds

FIRST_MS = FIRST.timestamp() * 1000


def rounds(*given: Json) -> Rounds:
    return read_rounds(Source.of_bytes(tracelab(*given), "x"))


def one(*args: object, **more: object) -> Round:
    return rounds(tracelab_round(*args, **more)).rounds[0]  # type: ignore[arg-type]


def events(*given: tuple[str, float]) -> list[Json]:
    return [{"event_type": kind, "timestamp": iso(at_s)} for kind, at_s in given]


def test_a_round_is_sent_with_its_last_input_and_ends_with_the_last_piece_of_its_answer() -> None:
    timing = events(
        ("tool_result", 1), ("tool_result", 3), ("reasoning", 4), ("tool_call", 6), ("text", 5), ("usage_report", 9)
    )

    round_ = one("A", 4, None, None, 100, 60, timing_events=timing)

    assert (round_.sent_ms, round_.ended_ms) == (FIRST_MS + 3000, FIRST_MS + 6000)
    assert (round_.prompt_tokens, round_.hit_tokens, round_.completion_tokens) == (100, 60, 10)
    assert (round_.has_reasoning, round_.is_for_person, round_.index) == (True, False, 4)


@pytest.mark.parametrize(
    ("given", "sent", "ended"),
    [
        ([("text", 2), ("text", 5)], 2, 5),
        ([("user_message", 2)], 2, None),
        ([("user_message", 2), ("text", 1)], 2, None),
        ([("user_message", 2), ("usage_report", 8)], 2, 8),
        ([], None, None),
    ],
)
def test_times_that_are_missing_or_upside_down(
    given: list[tuple[str, float]], sent: float | None, ended: float | None
) -> None:
    round_ = one("A", 0, None, None, 9, 0, timing_events=events(*given))

    assert round_.sent_ms == (None if sent is None else FIRST_MS + 1000 * sent)
    assert round_.ended_ms == (None if ended is None else FIRST_MS + 1000 * ended)


@pytest.mark.parametrize("given", ["2026-06-01T00:00:00", "2026-06-01T02:00:00+02:00", "2026-06-01T00:00:00.000Z"])
def test_times_without_a_zone_are_universal(given: str) -> None:
    assert one("A", 0, None, None, 9, 0, timing_events=[{"event_type": "text", "timestamp": given}]).sent_ms == FIRST_MS


@pytest.mark.parametrize(
    ("tool", "extent"),
    [
        (tracelab_tool("x", 1, 3), (1, 3)),
        (tracelab_tool("x", 1, None, tool_wall_latency_ms=500), (1, 1.5)),
        (tracelab_tool("x", None, 3, tool_wall_latency_ms=500), (2.5, 3)),
        (tracelab_tool("x", 1, 3, tool_wall_latency_ms=99), (1, 3)),
        (tracelab_tool("x", 1, None), (1, None)),
        (tracelab_tool("x", None, None, tool_wall_latency_ms=500), (None, None)),
    ],
)
def test_when_a_tool_ran(tool: Json, extent: tuple[float | None, float | None]) -> None:
    (found,) = one("A", 0, 0, 1, 9, 0, tools=[tool]).tools

    assert (found.start_ms, found.end_ms) == tuple(None if at is None else FIRST_MS + 1000 * at for at in extent)


def test_what_does_not_fit_is_cut_and_counted() -> None:
    found = rounds(
        tracelab_round("A", 0, 0, 1, 5, 9, out=3, reasoning_output_tokens=7, newly_append_tokens=0),
        tracelab_round("A", 0, 0, 1, 5, 3, newly_append_tokens=4, secret="x"),
    )

    assert [(r.hit_tokens, r.reasoning_tokens) for r in found.rounds] == [(5, 3), (3, None)]
    assert found.notes.counts == {
        "hit longer than its prompt (cut)": 1,
        "reasoning longer than its output (cut)": 1,
        "prompt that is not the sum of its parts (its own length is kept)": 1,
        "round with the index of another one of its session": 1,
        "unknown field (dropped)": 1,
    }


def test_texts_are_counted_and_left() -> None:
    tools = [tracelab_tool("x", 0, 1, input={"command": "secret"}), tracelab_tool("y", 0, 1, input="secret")]

    found = rounds(tracelab_round("A", 0, 0, 1, 5, 3, tools=tools), tracelab_round("A", 1, 0, 1, 5, 3, text="secret"))

    assert found.texts == 2
    assert "secret" not in repr(found)


DAMAGES: dict[str, tuple[Json | list[Json], str]] = {
    "no session": (tracelab_round(None, 0, 0, 1, 5, 3), "x:1: session_id: required, but not there"),  # type: ignore[arg-type]
    "no prompt": (tracelab_round("A", 0, 0, 1, 5, 3, input_tokens_total=None), "x:1: input_tokens_total: required"),
    "negative prompt": (tracelab_round("A", 0, 0, 1, -5, 0), "x:1: input_tokens_total: expected an integer from 0"),
    "huge prompt": (tracelab_round("A", 0, 0, 1, 2**40, 0), "x:1: input_tokens_total: expected an integer from 0"),
    "negative hit": (tracelab_round("A", 0, 0, 1, 5, -3), "x:1: prefix_tokens: expected an integer from 0"),
    "hit of another kind": (tracelab_round("A", 0, 0, 1, 5, 3, prefix_tokens="3"), "x:1: prefix_tokens: expected an integer, found a string"),
    "not a number": (tracelab_round("A", 0, 0, 1, 5, 3, output_tokens=math.nan), "x:1: output_tokens: expected an integer, found nan"),
    "index of another kind": (tracelab_round("A", 0, 0, 1, 5, 3, round_index=1.5), "x:1: round_index: expected an integer"),
    "unknown event": (
        tracelab_round("A", 0, None, None, 5, 3, timing_events=events(("tool_thought", 1))),
        "x:1: timing_events[0].event_type: expected one of user_message, tool_result, text, reasoning, tool_call, usage_report",
    ),
    "event of another kind": (tracelab_round("A", 0, None, None, 5, 3, timing_events=[5]), "x:1: timing_events[0]: expected an object"),
    "events of another kind": (tracelab_round("A", 0, None, None, 5, 3, timing_events={}), "x:1: timing_events: expected a list"),
    "no time": (
        tracelab_round("A", 0, None, None, 5, 3, timing_events=[{"event_type": "text", "timestamp": "yesterday"}]),
        "x:1: timing_events[0].timestamp: expected a time as ISO 8601 has it",
    ),
    "time of another kind": (
        tracelab_round("A", 0, None, None, 5, 3, timing_events=[{"event_type": "text", "timestamp": 7}]),
        "x:1: timing_events[0].timestamp: expected a string, found a number",
    ),
    "time before all time": (
        tracelab_round("A", 0, 0, 1, 5, 3, tools=[tracelab_tool("x", 0, None, result_at="0001-01-01T00:00:00+14:00")]),
        "x:1: tools[0].result_at: expected a time near the first one of the file",
    ),
    "far time": (
        [tracelab_round("A", 0, 0, 1, 5, 3), tracelab_round("A", 1, 10**9, None, 5, 3)],
        "x:2: timing_events[0].timestamp: expected a time near the first one of the file",
    ),
    "tools of another kind": (tracelab_round("A", 0, 0, 1, 5, 3) | {"tools": 5}, "x:1: tools: expected a list, found a number"),
    "tool of another kind": (tracelab_round("A", 0, 0, 1, 5, 3) | {"tools": ["x"]}, "x:1: tools[0]: expected an object"),
    "negative latency": (
        tracelab_round("A", 0, 0, 1, 5, 3, tools=[tracelab_tool("x", 1, 2, tool_wall_latency_ms=-1)]),
        "x:1: tools[0].tool_wall_latency_ms: expected a number from 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_told_with_line_and_field(kind: str) -> None:
    given, expected = DAMAGES[kind]

    with pytest.raises(TraceError) as caught:
        rounds(*given if isinstance(given, list) else [given])

    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_a_cut_line_is_told() -> None:
    with pytest.raises(TraceError, match="x:1: the file ends in the middle"):
        read_rounds(Source.of_bytes(tracelab(tracelab_round("A", 0, 0, 1, 5, 3))[:-30], "x"))
