from __future__ import annotations

import csv
import io

from chain_structure import members_of
from conversations import assert_conversations, conversations
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import DropKvCache, ParallelStart, Prefix, ToolCall, Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import tracelab_csv_writer as module
from rotoscope.traces.formats import tracelab_writer as rounds
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab_csv import read
from rotoscope.traces.formats.tracelab_csv_writer import write_corpus
from rotoscope.traces.model import SharedPrefix


def written(members: list[Member], fidelity: Fidelity | None = None) -> bytes:
    return b"".join(write_corpus(members, fidelity or Fidelity(), block_size=1))


def rows(members: list[Member], fidelity: Fidelity | None = None) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written(members, fidelity).decode())))


def test_a_row_keeps_what_lies_in_the_round_before() -> None:
    trace = make_trace(turns=2, isl=10, system=8, osl=3, new=4, tool_ms=40.5)

    assert rows(members_of([trace, trace], [0.0, 250.25])) == [
        {
            "session_id": str(session),
            "arrival_time": arrival,
            "round_idx": str(index),
            "prefix_len": prefix,
            "input_len": new,
            "output_len": "3",
            "tool_wait_after_ms": wait,
        }
        for session, arrival in ((0, "0"), (1, "250.25"))
        for index, prefix, new, wait in ((0, "0", "10", "40.5"), (1, "13", "4", "0"))
    ]


def test_a_row_keeps_nothing_of_another_domain_and_asks_for_one_token_at_least() -> None:
    trace = trace_of(
        make_call(0, 9, osl=0, prefix=Prefix("s0", 5, "ids")),
        make_call(1, 9, domain=1, prefix=Prefix("s0", 5, "ids")),
        make_call(2, 9, prefix=Prefix(0, 9, "ids")),
        shared_prefixes=[SharedPrefix("s0", "system", 5)],
    )

    assert [(row["prefix_len"], row["input_len"], row["output_len"]) for row in rows(members_of([trace]))] == [
        ("0", "9", "1"),
        ("0", "9", "20"),
        ("0", "9", "20"),
    ]


def test_what_is_lost_or_approximated_is_counted() -> None:
    trace = trace_of(
        make_call(0, 9, osl=0, ttft_ms=3.0, cached_tokens=4, finish_reason="stop"),
        make_call(1, 9, reasoning_tokens=2, prefix=Prefix(0, 5, "ids", low=2, high=6), at_ms=1.0, duration_ms=1.0),
        make_call(2, 20, prefix=Prefix(0, 9, "ids"), at_ms=2.0, duration_ms=1.0),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=5.0, call=0),
        ToolCall(tool_call_id="t1", tool_name="tool0", duration_ms=5.0, call=0, time_source="gap"),
        ToolCall(tool_call_id="t2", tool_name="tool0", duration_ms=5.0),
        Wait(kind="think", duration_ms=1.0),
        DropKvCache(),
        ParallelStart(region=0, num_branches=2),
    )
    fidelity = Fidelity()

    rows(members_of([trace, trace_of()]), fidelity)

    assert dict(fidelity.counts) == {
        rounds.LENGTHS: 3,
        rounds.ASSUMED: 1,
        rounds.BRANCHES: 2,
        rounds.NO_CLOCK: 2,
        rounds.BOUNDS: 1,
        rounds.FIRST_TOKENS: 1,
        rounds.FINISH: 1,
        rounds.CACHED: 1,
        rounds.OTHERS: 1,
        module.NO_DOMAINS: 3,
        module.DURATIONS: 3,
        module.OWN_PREFIXES: 2,
        module.OTHER_PREFIXES: 1,
        module.EMPTY_OUTPUTS: 1,
        module.NO_CALL_AFTER: 4,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.WRITE_ASPECTS)


@given(st.lists(conversations(), min_size=1, max_size=3))
def test_conversations_come_back_with_their_chains(traces: list[Trace]) -> None:
    members = members_of(traces, [1000.0 * index for index in range(len(traces))])

    found = read(Source.of_bytes(written(members)), Fidelity())

    assert_conversations(members, found)
