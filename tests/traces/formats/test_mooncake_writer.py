from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chain_structure import members_of
from hypothesis import given
from hypothesis import strategies as st
from mooncake_files import lines, read, row
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, Prefix, Trace, UnusableInput, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import mooncake_agentic_writer, mooncake_sessions_writer, mooncake_writer
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import read_mooncake
from rotoscope.traces.formats.mooncake_agentic_writer import write_mooncake_agentic
from rotoscope.traces.formats.mooncake_sessions_writer import write_mooncake_sessions
from rotoscope.traces.formats.mooncake_writer import write_mooncake
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import ParallelStart, ToolCall


def written(members: list[Member], *, block_size: int = 512, fidelity: Fidelity | None = None) -> list[dict[str, Any]]:
    pieces = write_mooncake(members, fidelity or Fidelity(), block_size=block_size)
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


@st.composite
def files(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows with chained ids, in the order of time; small blocks, so that the size must be told."""
    ids: dict[object, int] = {}
    rows, at_ms = [], 0
    for _ in range(draw(st.integers(1, 12))):
        at_ms += draw(st.sampled_from([0, 0, 1, 1000]))
        labels = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
        tail = draw(st.integers(0, 511))
        fields = row(at_ms, *labels, tail=tail, out=draw(st.integers(1, 600)))
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


def call(number: int, isl: int, *, of: int | str | None = None, shared: int = 0, **fields: Any) -> Call:
    prefix = Prefix(of, shared, "ids") if shared else Prefix(None, 0, "ids")
    return make_call(number, isl, osl=5, prefix=prefix, **fields)


def test_a_call_without_a_time_is_refused_with_what_to_do_instead() -> None:
    members = members_of([trace_of(call(0, 9, at_ms=0.0), call(1, 9))])

    with pytest.raises(UnusableInput, match=r"trace '0': call 1 has no time: write mooncake-sessions"):
        written(members)


def test_an_answer_without_a_token_gets_one_and_is_counted() -> None:
    fidelity = Fidelity()
    trace = trace_of(make_call(0, 9, osl=0, at_ms=0.0), make_call(1, 9, osl=3, at_ms=1.0))

    rows = written(members_of([trace]), fidelity=fidelity)

    assert [fields["output_length"] for fields in rows] == [1, 3]
    assert any(line.startswith("approximated answers without a token (1 calls)") for line in fidelity.lines())


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


def test_rows_keep_the_order_of_the_corpus_whatever_their_times() -> None:
    traces = [trace_of(call(0, 5, at_ms=0.0), call(1, 6, at_ms=3.0)), trace_of(call(0, 7, at_ms=0.0))]
    members = [
        Member(name="a", trace=traces[0], start_ms=9.0, ranks=(0, 2)),
        Member(name="b", trace=traces[1], start_ms=0.0, ranks=(1,)),
    ]

    assert [(fields["timestamp"], fields["input_length"]) for fields in written(members)] == [(9, 5), (0, 7), (12, 6)]


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


@given(corpora())
def test_what_becomes_of_a_corpus_is_declared(traces: list[Trace]) -> None:
    for write, declared in (
        (write_mooncake, mooncake_writer.WRITE_ASPECTS),
        (write_mooncake_sessions, mooncake_sessions_writer.WRITE_ASPECTS),
        (write_mooncake_agentic, mooncake_agentic_writer.WRITE_ASPECTS),
    ):
        fidelity = Fidelity()
        if write is write_mooncake and any(call.at_ms is None for trace in traces for call in trace.calls()):
            continue
        b"".join(write(members_of(traces), fidelity, block_size=2))
        assert set(fidelity.counts) <= set(declared)


def test_nothing_is_written_for_nothing() -> None:
    assert b"".join(write_mooncake([], Fidelity(), block_size=512)) == b""


def test_block_sizes_other_than_the_usual_are_found_again() -> None:
    members = read(row(0, 1, 2, 3), row(1, 1, 2, 4))

    back = read_mooncake(Source.of_bytes(lines(*written(members, block_size=64))), Fidelity())

    assert {member.trace.prefix_granularity for member in back} == {64}
    assert [[c.prefix.tokens for c in m.trace.calls()] for m in back] == [
        [c.prefix.tokens for c in m.trace.calls()] for m in members
    ]


def test_what_prompts_share_is_kept_only_where_ids_say_so() -> None:
    trace = trace_of(
        make_call(0, 700, osl=400),
        make_call(1, 300, prefix=Prefix(0, 300, "ids")),
        make_call(2, 700, prefix=Prefix(0, 700, "ids")),
        make_call(3, 1024, prefix=Prefix(0, 1024, "ids")),
        make_call(4, 20, domain=1),
    )
    fidelity = Fidelity()

    list(write_mooncake_sessions([Member(name="", trace=trace)], fidelity, block_size=512))

    said = {(aspect.what, aspect.verdict): times for aspect, times in fidelity.counts.items()}
    assert (said["common prefixes", "kept"], said["common prefixes", "approximated"]) == (4, 1)
    assert (said["reuse of outputs", "lost"], said["cache domains", "lost"]) == (1, 5)
