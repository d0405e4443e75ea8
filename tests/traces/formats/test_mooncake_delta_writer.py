"""Tests of rows whose later turns say what they add."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chain_structure import members_of
from hypothesis import given
from hypothesis import strategies as st
from mooncake_files import lines, read, turn
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Prefix, Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import mooncake_delta_writer
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import read_mooncake
from rotoscope.traces.formats.mooncake_delta_writer import write_mooncake_delta
from rotoscope.traces.formats.recognise import open_traces, read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import ParallelEnd, ParallelStart, ToolCall


def written(members: list[Member], *, block_size: int = 512, fidelity: Fidelity | None = None) -> list[dict[str, Any]]:
    pieces = write_mooncake_delta(members, fidelity or Fidelity(), block_size=block_size)
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


def one(*events: Any, **more: Any) -> list[Member]:
    return [Member(name="", trace=trace_of(*events, **more))]


def lengths(members: list[Member]) -> Counter[tuple[int, int]]:
    calls = (call for member in members for call in member.trace.calls())
    return Counter((call.prompt_tokens, max(1, call.completion_tokens)) for call in calls)


def sent(rows: list[dict[str, Any]]) -> list[int]:
    """The prompts of a client that sends all turns and answers before a turn."""
    so_far: Counter[str] = Counter()
    prompts = []
    for row in rows:
        prompts.append(so_far[row["session_id"]] + row["input_length"])
        so_far[row["session_id"]] = prompts[-1] + row["output_length"]
    return prompts


def test_a_later_turn_is_what_it_adds_to_the_prompt_and_answer_before_it() -> None:
    rows = written(one(make_call(0, 700, osl=40), make_call(1, 1500, osl=7, prefix=Prefix(0, 740, "ids"))))

    assert [(row["session_id"], row["input_length"], row["output_length"]) for row in rows] == [
        ("0.0", 700, 40),
        ("0.0", 760, 7),
    ]
    assert [len(row["hash_ids"]) for row in rows] == [2, 2]
    assert len({block for row in rows for block in row["hash_ids"]}) == 4


def test_a_prompt_that_loses_a_token_of_the_answer_before_begins_another_session_as_a_whole() -> None:
    rows = written(one(make_call(0, 700, osl=40), make_call(1, 1500, osl=7, prefix=Prefix(0, 739, "ids"), at_ms=90.0)))

    assert [(row["session_id"], row["input_length"], row.get("timestamp")) for row in rows] == [
        ("0.0", 700, None),
        ("0.1", 1500, 90),
    ]
    assert rows[0]["hash_ids"][0] == rows[1]["hash_ids"][0]


def test_a_prompt_that_adds_nothing_begins_another_session() -> None:
    rows = written(one(make_call(0, 700, osl=40), make_call(1, 740, prefix=Prefix(0, 740, "ids"))))

    assert [row["session_id"] for row in rows] == ["0.0", "0.1"]


def test_an_answer_without_a_token_is_replayed_as_one_and_the_next_prompt_stays_as_long_as_it_was() -> None:
    rows = written(one(make_call(0, 700, osl=0), make_call(1, 900, prefix=Prefix(0, 700, "ids"))))

    assert sent(rows) == [700, 900]
    assert rows[1]["input_length"] == 199


def test_another_model_does_not_go_on() -> None:
    rows = written(one(make_call(0, 700, osl=1), make_call(1, 900, domain=1)))

    assert [row["session_id"] for row in rows] == ["0.0", "0.1"]


def test_where_answers_are_unknown_growth_is_assumed_and_that_is_said() -> None:
    fidelity = Fidelity()
    members = read(turn("a", 1, 2, out=100), turn("a", 1, 2, 3, out=9))

    rows = written(members, fidelity=fidelity)

    assert [row["input_length"] for row in rows] == [1024, 412]
    assert any(line.startswith("approximated later turns (1 turns)") for line in fidelity.lines())


def test_branches_are_sessions_of_their_own_and_wait_for_answers_of_their_own() -> None:
    first = (1, 0)
    rows = written(
        one(
            make_call(0, 700, osl=40, at_ms=0.0, duration_ms=10.0),
            ParallelStart(region=1, num_branches=1),
            make_call(1, 800, osl=5, branch=first, prefix=Prefix(0, 740, "ids"), at_ms=20.0, duration_ms=100.0),
            make_call(2, 900, osl=5, prefix=Prefix(0, 740, "ids"), at_ms=60.0, duration_ms=10.0),
            ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=30.0, branch=first),
            make_call(3, 1000, osl=5, branch=first, prefix=Prefix(1, 805, "ids"), at_ms=155.0, duration_ms=1.0),
            ParallelEnd(region=1),
        )
    )

    assert [(row["session_id"], row.get("delay"), row.get("timestamp")) for row in rows] == [
        ("0.0", None, 0),
        ("0.1", None, 20),
        ("0.0", 50, None),
        ("0.1", 35, None),
    ]


@pytest.mark.parametrize("answer", [1, 30])
def test_rows_of_less_than_a_block_are_read_as_what_turns_add(answer: int) -> None:
    trace = trace_of(make_call(0, 10, osl=answer), make_call(1, 90, prefix=Prefix(0, 10 + answer, "ids")))
    data = b"".join(write_mooncake_delta([Member(name="", trace=trace)], Fidelity(), block_size=512))
    fidelity = Fidelity()

    known, (back,) = read_source(Source.of_bytes(data), fidelity)

    assert known.name == "mooncake-delta"
    assert [call.prompt_tokens for call in back.trace.calls()] == [10, 90]
    assert any(line.startswith("kept lengths of later turns (1 sessions)") for line in fidelity.lines())


@given(corpora(), st.integers(1, 4))
def test_any_corpus_comes_back_with_the_same_lengths(traces: list[Trace], block: int) -> None:
    members = members_of(traces)

    rows = written(members, block_size=block)

    assert Counter(zip(sent(rows), (row["output_length"] for row in rows), strict=True)) == lengths(members)
    assert all(len(row["hash_ids"]) == -(-row["input_length"] // block) for row in rows)
    if rows:
        assert lengths(read_mooncake(Source.of_bytes(lines(*rows)), Fidelity())) == lengths(members)


@pytest.mark.parametrize("name", ["trtllm/*.trace.json", "weka/trace_*.json", "mooncake/synthetic_trace.jsonl"])
def test_reference_files_come_back_with_the_same_lengths(data_dir: Path, name: str) -> None:
    members = [trace.member for trace in open_traces(sorted(data_dir.glob(name))[:4])]
    data = b"".join(write_mooncake_delta(members, Fidelity(), block_size=512))

    assert members
    assert lengths(read_mooncake(Source.of_bytes(data), Fidelity())) == lengths(members)


@given(corpora())
def test_what_becomes_of_a_corpus_is_declared(traces: list[Trace]) -> None:
    fidelity = Fidelity()

    list(write_mooncake_delta(members_of(traces), fidelity, block_size=2))

    assert set(fidelity.counts) <= set(mooncake_delta_writer.WRITE_ASPECTS)


def test_the_account_counts_turns_sessions_gaps_and_tools() -> None:
    fidelity = Fidelity()
    members = one(
        make_call(0, 600, osl=10),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=1.0),
        make_call(1, 1300, osl=10, prefix=Prefix(0, 610, "ids")),
        ToolCall(tool_call_id="t1", tool_name="tool0", duration_ms=1.0),
        make_call(2, 1400, prefix=Prefix(1, 1024, "ids")),
        Wait(kind="human", duration_ms=1.0),
    )

    written(members, fidelity=fidelity)

    assert set(fidelity.lines()) == {
        "kept prompt and output lengths (3 calls)",
        "kept later turns (1 turns): as what they add to the prompt and answer before",
        "kept common prefixes (2 calls): as block ids",
        "kept gaps between turns (1 gaps): as delays",
        (
            "approximated sessions (2 sessions): several: branches, and prompts that do not go on with all of the one "
            "before, begin another"
        ),
        "approximated tools (1 tools): as delays before the next turn",
        "lost common prefixes (1 calls): a prompt that begins a session shares what a later turn of another added",
        "lost gaps between turns (1 gaps): another session begins; its time is kept where it is known",
        "lost tools (1 tools): another session begins after them",
        "lost tools and waits (1 events): no call of their branch follows",
    }


def test_reuse_of_outputs_is_lost_only_for_prompts_that_begin_a_session() -> None:
    fidelity = Fidelity()
    members = one(
        make_call(0, 600, osl=10),
        make_call(1, 700, osl=10, prefix=Prefix(0, 610, "ids")),
        make_call(2, 800, prefix=Prefix(1, 705, "ids")),
    )

    written(members, fidelity=fidelity)

    assert fidelity.counts[mooncake_delta_writer.NO_OUTPUTS] == 1
