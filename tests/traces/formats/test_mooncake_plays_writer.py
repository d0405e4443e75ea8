from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chain_structure import in_order, members_of
from hypothesis import assume, given, settings
from mooncake_plays_files import HEADER, edge, read, request
from strategies import corpora

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Trace, UnusableInput, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_agentic import IN_LINE, OTHER_WAITS
from rotoscope.traces.formats.mooncake_plays_writer import (
    DURATIONS,
    EDGES,
    LATER_STARTS,
    MODELS,
    NO_TIMES,
    STARTS_OF_PLAYS,
    TOOL_DELAYS,
    write_plays,
)
from rotoscope.traces.formats.recognise import open_trace
from rotoscope.traces.model import Call, ParallelEnd, ParallelStart

Json = dict[str, Any]

ROWS = [
    request("r0", "0", 0, 1, took_ms=100, source_play_ordinal=0, play_id="0", model="model0"),
    request(
        *("r1", "0.0.0", 0, 2),
        at_ms=40,
        took_ms=60,
        after=[edge("r0", 40, "dispatch", "spawn")],
        source_play_ordinal=0,
        play_id="0",
        model="model0",
    ),
    request(
        *("r2", "0.0.0", 3),
        at_ms=200,
        took_ms=250,
        after=[edge("r1", 100)],
        source_play_ordinal=0,
        play_id="0",
        model="model1",
    ),
    request(
        *("r3", "0", 0, 1, 4),
        at_ms=500,
        after=[edge("r0", 50), edge("r2", 50, relation="join")],
        source_play_ordinal=0,
        play_id="0",
        model="model0",
    ),
    request("r4", "1", 0, 5, at_ms=501, source_play_ordinal=1, play_id="1", model="model0"),
]


def written(members: list[Member], *, block_size: int = 64, fidelity: Fidelity | None = None) -> list[Json]:
    pieces = write_plays(members, fidelity or Fidelity(), block_size=block_size)
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


def test_rows_come_back_as_they_were() -> None:
    header, *rows = written(read(*ROWS))

    assert {**header, "source": HEADER["source"]} == HEADER
    assert header["source"]["format"] == "rotoscope"
    assert rows == [{**row, "dependencies": list(row["dependencies"])} for row in ROWS]


def test_runs_come_back_as_they_were() -> None:
    members = read(*ROWS)

    assert read(*written(members)[1:]) == members


def test_tools_and_waits_are_delays_and_a_tool_beside_another_costs_no_time_of_its_own() -> None:
    fidelity = Fidelity()

    _, first, second, *_ = written(members_of([make_trace(turns=2, tool_ms=300.0)]), fidelity=fidelity)

    assert second["dependencies"] == [edge(first["request_id"], 300)]
    assert fidelity.counts[TOOL_DELAYS] == 1


def test_a_trace_without_times_says_only_when_it_may_begin() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        Wait(kind="human", duration_ms=7.0), make_call(0, 10), Wait(kind="human", duration_ms=5.0), make_call(1, 20)
    )

    _, first, second = written(members_of([trace]), fidelity=fidelity)

    assert (first["not_before_ms"], second["not_before_ms"]) == (7, 0)
    assert second["dependencies"][0]["delay_ms"] == 5
    assert fidelity.counts[NO_TIMES] == 2


@pytest.mark.parametrize(("at_ms", "trigger"), [(99.0, "dispatch"), (100.0, "completion")])
def test_a_branch_waits_for_an_answer_unless_it_began_before_that(at_ms: float, trigger: str) -> None:
    trace = trace_of(
        make_call(0, 100, at_ms=0.0, duration_ms=100.0),
        ParallelStart(region=0, num_branches=1),
        make_call(1, 100, branch=(0, 0), at_ms=at_ms),
    )

    *_, row = written(members_of([trace]))

    assert [one["trigger"] for one in row["dependencies"]] == [trigger]


def test_ordinals_have_no_gap_where_a_trace_has_no_call() -> None:
    rows = written(members_of([make_trace(turns=1), trace_of(), make_trace(turns=1)]))[1:]

    assert sorted(row["source_play_ordinal"] for row in rows) == [0, 1]


def test_a_wait_before_the_first_call_makes_it_start_later() -> None:
    fidelity = Fidelity()

    written(members_of([trace_of(Wait(kind="human", duration_ms=7.0), make_call(0, 10))]), fidelity=fidelity)

    assert fidelity.counts[LATER_STARTS] == 1


def test_branches_from_the_start_stay_in_their_run() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, 100, branch=(0, 0)),
        make_call(1, 100, branch=(0, 1)),
    )

    rows = written(members_of([trace]), fidelity=fidelity)[1:]

    assert [row["play_id"] for row in rows] == ["0", "0"]
    assert [row["dependencies"] for row in rows] == [[], []]
    assert fidelity.counts[STARTS_OF_PLAYS] == 2
    assert len(read(*rows)) == 1


def test_what_is_kept_is_said() -> None:
    fidelity = Fidelity()

    written(read(*ROWS), fidelity=fidelity)

    assert (fidelity.counts[DURATIONS], fidelity.counts[MODELS], fidelity.counts[EDGES]) == (3, 4, 1)


def test_a_time_that_readers_would_refuse_is_not_written() -> None:
    trace = trace_of(make_call(0, 10, at_ms=0.0), make_call(1, 20, at_ms=3e14))

    with pytest.raises(UnusableInput, match="cannot be written"):
        written(members_of([trace]))


@given(corpora())
def test_any_corpus_can_be_read_again_with_the_same_calls(traces: list[Trace]) -> None:
    members = members_of(traces)
    header, *rows = written(members, block_size=2)

    back = read(*rows, header=header) if rows else []

    calls = [(call.prompt_tokens, call.completion_tokens) for _, call in in_order(members)]
    assert sorted((call.prompt_tokens, call.completion_tokens) for _, call in in_order(back)) == sorted(calls)
    assert len(back) == sum(1 for trace in traces if any(trace.calls()))


@settings(max_examples=30)
@given(corpora())
def test_requests_wait_for_the_same_ones_again_wherever_nothing_is_said_to_be_changed(traces: list[Trace]) -> None:
    fidelity = Fidelity()
    header, *rows = written(members_of(traces), block_size=2, fidelity=fidelity)
    back = read(*rows, header=header, fidelity=fidelity) if rows else []
    assume(not {IN_LINE, OTHER_WAITS} & set(fidelity.counts))

    again = written(back, block_size=2)[1:]

    assert sorted(map(waits_of, again)) == sorted(map(waits_of, rows))


def waits_of(row: Json) -> tuple[int, int, int]:
    return row["input_length"], row["output_length"], len(row["dependencies"])


@pytest.mark.parametrize("name", ["trace_0277", "trace_0028", "trace_0426"])
def test_a_weka_file_comes_back_with_its_calls_prefixes_times_and_regions(
    name: str, tmp_path: Path, data_dir: Path
) -> None:
    path = tmp_path / "plays.jsonl"
    trace = open_trace(data_dir / "weka" / f"{name}.json")

    path.write_bytes(b"".join(write_plays([Member(name="", trace=trace)], Fidelity(), block_size=64)))
    back = open_trace(path)

    assert [said(call) for call in back.calls()] == [said(call) for call in trace.calls()]
    assert regions(back) == regions(trace)


def said(call: Call) -> tuple[object, ...]:
    return call.prompt_tokens, call.completion_tokens, call.prefix, call.at_ms, call.duration_ms, call.branch is None


def regions(trace: Trace) -> list[tuple[str, int, int]]:
    """Forks with their branches and joins, each with how many calls of its branch come before it."""
    calls: Counter[object] = Counter()
    found = []
    for event in trace.events:
        if isinstance(event, Call):
            calls[event.branch] += 1
        elif isinstance(event, ParallelStart):
            found.append(("fork", event.num_branches, calls[event.branch]))
        elif isinstance(event, ParallelEnd):
            found.append(("join", event.region, calls[event.branch]))
    return found
