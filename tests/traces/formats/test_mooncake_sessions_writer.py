from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from chain_structure import chains, in_order, members_of
from hypothesis import given
from hypothesis import strategies as st
from mooncake_files import read, turn
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Prefix, Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import read_mooncake
from rotoscope.traces.formats.mooncake_sessions_writer import gaps_before, write_mooncake_sessions
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import ToolCall

PART_ROWS = 2_000
"""So many are taken of a published file, unless ROTOSCOPE_WHOLE_DATA=1 takes it whole (`make test-data`)."""


def written_sessions(
    members: list[Member], *, block_size: int = 512, fidelity: Fidelity | None = None
) -> list[dict[str, Any]]:
    pieces = write_mooncake_sessions(members, fidelity or Fidelity(), block_size=block_size)
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


def renumbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their ids numbered by first appearance."""
    ids: dict[int, int] = {}
    return [{**fields, "hash_ids": [ids.setdefault(i, len(ids)) for i in fields["hash_ids"]]} for fields in rows]


@pytest.mark.parametrize("name", ["conversation_trace", "synthetic_trace"])
def test_sessions_of_the_published_files_come_back_with_their_prefixes_and_gaps(data_dir: Path, name: str) -> None:
    lines = (data_dir / "mooncake" / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    lines = lines if os.environ.get("ROTOSCOPE_WHOLE_DATA") else lines[:PART_ROWS]
    members = read_source(Source.of_bytes(b"".join(lines)))[1]

    back = read(*written_sessions(members))

    assert [essence(member) for member in back] == [essence(member) for member in members]


def essence(member: Member) -> object:
    """A session but for the times of its later turns."""
    calls = [(call.prompt_tokens, call.completion_tokens, call.prefix) for call in member.trace.calls()]
    waits = [event.duration_ms for event in member.trace.events if isinstance(event, Wait)]
    return member.start_ms, member.ranks, member.trace.shared_prefixes, calls, waits


@given(corpora(), st.integers(1, 4), st.booleans())
def test_any_corpus_becomes_rows_with_the_same_chains(traces: list[Trace], block: int, ranked: bool) -> None:
    members = members_of(traces)
    if ranked:
        members = with_ranks(members)
    calls = [call for _, call in in_order(members)]

    rows = written_sessions(members, block_size=block)

    if ranked or any(call.at_ms is None for call in calls):
        assert [(r["input_length"], r["output_length"]) for r in rows] == [
            (call.prompt_tokens, max(1, call.completion_tokens)) for call in calls
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


def test_a_session_has_its_start_and_then_delays() -> None:
    members = [
        Member(
            name="run",
            trace=trace_of(
                make_call(0, 9, at_ms=0.0, duration_ms=10.0),
                Wait(kind="human", duration_ms=5.0),
                make_call(1, 9, at_ms=40.0),
                Wait(kind="human", duration_ms=7.0),
                ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=3.5),
                make_call(2, 9),
            ),
            start_ms=100.0,
        )
    ]

    rows = written_sessions(members)

    assert [(r["session_id"], r.get("timestamp"), r.get("delay")) for r in rows] == [
        ("0", 100, None),
        ("0", None, 30),
        ("0", None, 10.5),
    ]


def test_the_gap_before_a_call_is_measured_where_both_times_are_known_and_never_negative() -> None:
    trace = trace_of(
        make_call(0, 9, at_ms=0.0, duration_ms=10.0), Wait(kind="think", duration_ms=5.0), make_call(1, 9, at_ms=8.0)
    )

    assert gaps_before(trace) == {0: 0.0, 1: 0.0}


def test_a_session_file_without_times_says_none() -> None:
    rows = written_sessions(read(turn("a", 1), turn("a", 1, 2, delay=5)))

    assert [set(fields) & {"timestamp", "delay"} for fields in rows] == [set(), {"delay"}]


def test_every_trace_is_a_session_of_its_own_whatever_its_name_is() -> None:
    members = [Member(name=name, trace=trace_of(make_call(0, 9))) for name in ("alice", "alice", "")]

    assert [fields["session_id"] for fields in written_sessions(members)] == ["0", "1", "2"]


def test_who_reads_the_rows_of_later_turns_otherwise_is_named() -> None:
    fidelity = Fidelity()
    members = read(turn("a", 1), turn("a", 1, 2, delay=5), turn("b", 3))

    list(write_mooncake_sessions(members, fidelity, block_size=512))

    assert any(line.startswith("lost lengths of later turns in AIPerf (1 sessions)") for line in fidelity.lines())


def test_prompts_that_begin_anew_are_not_taken_for_what_a_turn_adds() -> None:
    trace = trace_of(
        make_call(0, 1300), make_call(1, 1400, domain=1), make_call(2, 9000, prefix=Prefix(0, 300, "ids"), at_ms=7.0)
    )
    members = [Member(name="", trace=trace)]
    data = b"".join(write_mooncake_sessions(members, Fidelity(), block_size=512))

    (back,) = read_mooncake(Source.of_bytes(data), Fidelity())

    assert [call.prompt_tokens for call in back.trace.calls()] == [1300, 1400, 9000]
    assert [fields.get("prefix_reset") for fields in map(json.loads, data.splitlines())] == [None, True, True]
