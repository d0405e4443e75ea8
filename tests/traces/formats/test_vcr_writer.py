from __future__ import annotations

import json
from typing import Any

from chain_structure import chains, in_order, members_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Call, DropKvCache, Prefix, ToolCall, Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import vcr_writer as module
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.vcr import read
from rotoscope.traces.formats.vcr_writer import write_corpus
from rotoscope.traces.formats.written_times import written_times
from rotoscope.traces.model import SharedPrefix


def written(members: list[Member], block_size: int = 4, fidelity: Fidelity | None = None) -> list[Any]:
    data = b"".join(write_corpus(members, fidelity or Fidelity(), block_size=block_size))
    return [json.loads(line) for line in data.splitlines()]


def test_a_call_is_a_record_of_the_engine() -> None:
    trace = make_trace(turns=2, isl=10, system=8, osl=4, new=3)

    meta, first, second = written(members_of([trace], [2000.0]))

    assert meta == {"meta": {"source": "rotoscope", "block_size": 4}}
    assert first == {
        "prompt_tokens": 10,
        "cached_tokens": 8,
        "output_tokens": 4,
        "ttft_ms": 25.0,
        "itl_summary": {"mean_ms": 25.0, "count": 3},
        "concurrency": 1,
        "arrival_ms": 2000.0,
        "block_hashes": [0, 1],
        "finish_reason": "stop",
    }
    assert (second["block_hashes"], second["cached_tokens"]) == ([0, 1, 2, 3], 12)


def test_records_stand_in_the_order_in_which_they_ended_with_what_ran_meanwhile() -> None:
    trace = trace_of(
        make_call(0, 9, at_ms=0.0, duration_ms=100.0),
        make_call(1, 8, at_ms=10.0, duration_ms=20.0),
        make_call(2, 7, at_ms=30.0, duration_ms=500.0),
    )

    _, *records = written(members_of([trace]))

    assert [(record["prompt_tokens"], record["concurrency"]) for record in records] == [(8, 2), (9, 1), (7, 2)]


def test_times_of_tokens_follow_from_what_is_known() -> None:
    trace = trace_of(
        make_call(0, osl=5, ttft_ms=20.0, duration_ms=60.0),
        make_call(1, osl=1, ttft_ms=20.0, duration_ms=60.0),
        make_call(2, osl=0, duration_ms=60.0),
        make_call(3, osl=3, ttft_ms=20.0),
        make_call(4, osl=3),
    )

    _, *records = written(members_of([trace]))

    found = {(r["ttft_ms"], r["output_tokens"]): r.get("itl_summary") for r in records}
    assert found == {
        (20, 5): {"mean_ms": 10, "count": 4},
        (20, 1): None,
        (60, 0): None,
        (20, 3): {"mean_ms": 0, "count": 2},
        (0, 3): {"mean_ms": 0, "count": 2},
    }


def test_what_is_lost_or_approximated_is_counted() -> None:
    trace = trace_of(
        make_call(
            0, 9, prefix=Prefix("s0", 6, "ids"), osl=4, reasoning_tokens=2, cached_tokens=3, at_ms=0.0, duration_ms=1.0
        ),
        make_call(1, 13, prefix=Prefix(0, 12, "ids", low=5, high=13), ttft_ms=4.0, finish_reason="tool_calls"),
        make_call(2, 13, domain=1),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=5.0),
        Wait(kind="think", duration_ms=3.0),
        DropKvCache(),
        shared_prefixes=[SharedPrefix("s0", "system", 6)],
    )
    fidelity = Fidelity()

    written(members_of([trace, trace_of()]), fidelity=fidelity)

    assert dict(fidelity.counts) == {
        module.LENGTHS: 3,
        module.CACHED: 1,
        module.NO_CACHED: 2,
        module.TIMES: 1,
        module.FIRST_TOKENS: 1,
        module.NO_FIRST_TOKENS: 2,
        module.SHARED: 1,
        module.PREFIXES: 1,
        module.ASSUMED: 2,
        module.NO_CLOCK: 2,
        module.FINISH: 1,
        module.SESSIONS: 2,
        module.GAPS: 2,
        module.DOMAINS: 3,
        module.BOUNDS: 1,
        module.OUTPUTS: 1,
        module.REASONING: 1,
        module.OTHERS: 1,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.WRITE_ASPECTS)


STARTS = st.lists(st.sampled_from([0.0, 3.0, 7.5, 100.25]), min_size=3, max_size=3)


@given(corpora(), STARTS, st.integers(1, 5))
def test_chains_lengths_and_times_come_back(traces: list[Trace], starts: list[float], block_size: int) -> None:
    members = members_of(traces, starts[: len(traces)])
    times = written_times(members)

    def extent(place: tuple[int, int]) -> tuple[float, float]:
        return times[place[0]].calls[place[1]]

    by_end = sorted(in_order(members), key=lambda item: extent(item[0])[1])
    given_calls = sorted(by_end, key=lambda item: extent(item[0])[0])
    data = b"".join(write_corpus(members, Fidelity(), block_size=block_size))

    found = read(Source.of_bytes(data, "x"), Fidelity()) if given_calls else []

    back = in_order(found)
    assert [measures(call) for _, call in back] == [measures(call) for _, call in given_calls]
    before = chains(members, [place for place, _ in given_calls], block_size, with_partial=False)
    assert chains(found, [place for place, _ in back], block_size, with_partial=False) == before
    for (place, call), (back_place, back_call) in zip(given_calls, back, strict=True):
        first_ms = extent(given_calls[0][0])[0]
        assert (found[back_place[0]].start_ms or 0.0) + (back_call.at_ms or 0.0) == extent(place)[0] - first_ms
        if call.completion_tokens > 1 and call.ttft_ms is None:
            assert back_call.duration_ms == (call.duration_ms or 0.0)


def measures(call: Call) -> tuple[object, ...]:
    return call.prompt_tokens, call.completion_tokens
