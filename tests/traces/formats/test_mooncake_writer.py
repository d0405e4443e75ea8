from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chain_structure import chains, in_order, members_of
from hypothesis import given
from hypothesis import strategies as st
from mooncake_files import lines, read, row, turn
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, Prefix, Trace, UnusableInput, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import read_mooncake
from rotoscope.traces.formats.mooncake_writer import gaps_before, write_mooncake, write_mooncake_sessions
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import ParallelStart, ToolCall


def written(members: list[Member], *, block_size: int = 512, fidelity: Fidelity | None = None) -> list[dict[str, Any]]:
    pieces = write_mooncake(members, fidelity or Fidelity(), block_size=block_size)
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


def written_sessions(
    members: list[Member], *, block_size: int = 512, fidelity: Fidelity | None = None
) -> list[dict[str, Any]]:
    pieces = write_mooncake_sessions(members, fidelity or Fidelity(), block_size=block_size)
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


def renumbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their ids numbered by first appearance."""
    ids: dict[int, int] = {}
    return [{**fields, "hash_ids": [ids.setdefault(i, len(ids)) for i in fields["hash_ids"]]} for fields in rows]


@pytest.mark.parametrize(("name", "count"), [("conversation_trace", 12_031), ("synthetic_trace", 3_993)])
def test_all_rows_of_the_published_files_come_back_as_they_were(data_dir: Path, name: str, count: int) -> None:
    path = data_dir / "mooncake" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]

    back = written([trace.member for trace in open_traces([path])])

    assert len(back) == count
    assert [list(fields) for fields in back[:1]] == [["timestamp", "input_length", "output_length", "hash_ids"]]
    assert back == renumbered(rows)


@pytest.mark.parametrize("name", ["conversation_trace", "synthetic_trace"])
def test_sessions_of_the_published_files_come_back_with_their_prefixes_and_gaps(data_dir: Path, name: str) -> None:
    members = [trace.member for trace in open_traces([data_dir / "mooncake" / f"{name}.jsonl"])]

    back = read(*written_sessions(members))

    assert [essence(member) for member in back] == [essence(member) for member in members]


def essence(member: Member) -> object:
    """A session but for the times of its later turns."""
    calls = [(call.prompt_tokens, call.completion_tokens, call.prefix) for call in member.trace.calls()]
    waits = [event.duration_ms for event in member.trace.events if isinstance(event, Wait)]
    return member.start_ms, member.ranks, member.trace.shared_prefixes, calls, waits


@st.composite
def files(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows with chained ids, in the order of time; small blocks, so that the size must be told."""
    ids: dict[object, int] = {}
    rows, at_ms = [], 0
    for _ in range(draw(st.integers(1, 12))):
        at_ms += draw(st.sampled_from([0, 0, 1, 1000]))
        labels = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
        tail = draw(st.integers(0, 511))
        fields = row(at_ms, *labels, tail=tail, out=draw(st.integers(0, 600)))
        tokens = fields["input_length"]
        keys = [(*labels[: i + 1], min(tokens, 512 * (i + 1))) for i in range(len(labels))]
        rows.append({**fields, "hash_ids": [ids.setdefault(key, len(ids) * 7 - 3) for key in keys]})
    return rows


@given(files())
def test_rows_come_back_as_they_were_up_to_the_names_of_blocks(rows: list[dict[str, Any]]) -> None:
    assert written(read(*rows)) == renumbered(rows)


@given(files())
def test_forest_to_mooncake_and_back_gives_the_same_corpus(rows: list[dict[str, Any]]) -> None:
    members = read(*rows)

    assert read(*written(members)) == members


@given(corpora(), st.integers(1, 4), st.booleans())
def test_any_corpus_becomes_rows_with_the_same_chains(traces: list[Trace], block: int, ranked: bool) -> None:
    members = members_of(traces)
    if ranked:
        members = with_ranks(members)
    calls = [call for _, call in in_order(members)]

    rows = written_sessions(members, block_size=block)

    if ranked or any(call.at_ms is None for call in calls):
        assert [(r["input_length"], r["output_length"]) for r in rows] == [
            (call.prompt_tokens, call.completion_tokens) for call in calls
        ]
        expected = chains(members, [place for place, _ in in_order(members)], block, with_partial=True)
        assert [tuple(fields["hash_ids"]) for fields in renumbered(rows)] == expected
    assert sorted(len(r["hash_ids"]) for r in rows) == sorted(-(-call.prompt_tokens // block) for call in calls)


def with_ranks(members: list[Member]) -> list[Member]:
    ranks, place = [], 0
    for member in members:
        count = len(list(member.trace.calls()))
        ranks.append(tuple(range(place, place + count)))
        place += count
    return [
        Member(name=m.name, trace=m.trace, start_ms=m.start_ms, ranks=r) for m, r in zip(members, ranks, strict=True)
    ]


def call(number: int, isl: int, *, of: int | str | None = None, shared: int = 0, **fields: Any) -> Call:
    prefix = Prefix(of, shared, "ids") if shared else Prefix(None, 0, "ids")
    return make_call(number, isl, osl=5, prefix=prefix, **fields)


def test_a_call_without_a_time_is_refused_with_what_to_do_instead() -> None:
    members = members_of([trace_of(call(0, 9, at_ms=0.0), call(1, 9))])

    with pytest.raises(UnusableInput, match=r"trace '0': call 1 has no time: write mooncake-sessions"):
        written(members)


def test_prefixes_that_end_within_a_block_are_cut_and_counted() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        call(0, 40, at_ms=0.0), call(1, 60, of=0, shared=40, at_ms=1.0), call(2, 60, of=1, shared=60, at_ms=2.0)
    )

    rows = written(members_of([trace]), block_size=16, fidelity=fidelity)

    assert [fields["hash_ids"] for fields in rows] == [[0, 1, 2], [0, 1, 3, 4], [0, 1, 3, 4]]
    assert "approximated common prefixes (1 calls): cut to whole blocks" in fidelity.lines()
    assert "kept common prefixes (2 calls): as block ids" in fidelity.lines()


def test_traces_without_a_common_clock_start_together_and_rows_stand_in_the_order_of_time() -> None:
    fidelity = Fidelity()
    traces = [
        trace_of(call(0, 5, at_ms=0.0), call(1, 6, at_ms=30.5)),
        trace_of(call(0, 7, at_ms=0.0), call(1, 8, at_ms=9.0)),
    ]

    rows = written(members_of(traces), fidelity=fidelity)

    assert [(fields["timestamp"], fields["input_length"]) for fields in rows] == [(0, 5), (0, 7), (9, 8), (30.5, 6)]
    assert any(line.startswith("approximated arrival times (2 traces)") for line in fidelity.lines())


def test_what_rows_cannot_say_is_counted() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        call(0, 9, at_ms=0.0, duration_ms=4.0, reasoning_tokens=2, cached_tokens=3),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=3.0),
        ParallelStart(region=0, num_branches=1),
        Wait(kind="think", duration_ms=1.0, branch=(0, 0)),
        call(1, 9, at_ms=9.0, branch=(0, 0)),
    )

    written(members_of([trace]), fidelity=fidelity)

    lost = [line.partition(":")[0] for line in fidelity.lines() if line.startswith("lost")]
    assert lost == [
        "lost which output is reasoning (1 calls)",
        "lost durations and times to the first token (1 calls)",
        "lost cached tokens that servers reported (1 calls)",
        "lost sessions (1 sessions)",
        "lost tools and waits (2 events)",
        "lost branches (1 calls)",
    ]


def test_a_session_has_its_start_and_then_delays() -> None:
    members = [
        Member(
            name="run",
            trace=trace_of(
                call(0, 9, at_ms=0.0, duration_ms=10.0),
                Wait(kind="human", duration_ms=5.0),
                call(1, 9, at_ms=40.0),
                Wait(kind="human", duration_ms=7.0),
                ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=3.5),
                call(2, 9),
            ),
            start_ms=100.0,
        )
    ]

    rows = written_sessions(members)

    assert [(r["session_id"], r.get("timestamp"), r.get("delay")) for r in rows] == [
        ("run", 100, None),
        ("run", None, 30),
        ("run", None, 10.5),
    ]


def test_the_gap_before_a_call_is_measured_where_both_times_are_known_and_never_negative() -> None:
    trace = trace_of(
        call(0, 9, at_ms=0.0, duration_ms=10.0), Wait(kind="think", duration_ms=5.0), call(1, 9, at_ms=8.0)
    )

    assert gaps_before(trace) == {0: 0.0, 1: 0.0}


def test_a_session_file_without_times_says_none() -> None:
    rows = written_sessions(read(turn("a", 1), turn("a", 1, 2, delay=5)))

    assert [set(fields) & {"timestamp", "delay"} for fields in rows] == [set(), {"delay"}]


def test_nothing_is_written_for_nothing() -> None:
    assert b"".join(write_mooncake([], Fidelity(), block_size=512)) == b""


def test_block_sizes_other_than_the_usual_are_found_again() -> None:
    members = read(row(0, 1, 2, 3), row(1, 1, 2, 4))

    back = read_mooncake(Source.of_bytes(lines(*written(members, block_size=64))), Fidelity())

    assert {member.trace.prefix_granularity for member in back} == {64}
    assert [[c.prefix.tokens for c in m.trace.calls()] for m in back] == [
        [c.prefix.tokens for c in m.trace.calls()] for m in members
    ]
