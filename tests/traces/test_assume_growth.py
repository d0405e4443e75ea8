from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import agent, request, weka
from hypothesis import given
from hypothesis import strategies as st
from strategies import traces

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, Forest, ParallelStart, Prefix, Trace, dumps, loads, normalise, validate
from rotoscope.traces.analysis.optimum import planned_hits
from rotoscope.traces.assume_growth import assume_growth, assume_growth_of
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.weka import read, read_weka
from rotoscope.traces.formats.weka_writer import write_trace


def grown(*calls: dict[str, Any]) -> list[tuple[int | str | None, int, str]]:
    """Assume growth in a Weka session of these requests; return the prefixes."""
    trace, _ = assume_growth(read_weka(weka(*calls)))
    assert loads(dumps(trace)) == trace
    return [(c.prefix.of, c.prefix.tokens, c.prefix.source) for c in trace.calls()]


FIRST = request(0, [1, 2], tail=5, out=30, api_time=1)


def test_a_prompt_that_goes_on_after_all_blocks_holds_the_answer_before_it() -> None:
    trace, assumed = assume_growth(read_weka(weka(FIRST, request(5, [1, 2, 3], tail=1))))

    assert list(trace.calls())[1].prefix == Prefix(0, 163, "assumed", low=128)
    assert (assumed, trace.outputs, trace.prefix_granularity) == (1, "assumed", 64)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(request(5, [1, 9, 3]), id="a block less"),
        pytest.param(request(5, [8, 9, 3]), id="nothing"),
        pytest.param(request(5, [1, 2], tail=34), id="too short"),
        pytest.param(request(5, [1, 2, 3], model="n"), id="another model"),
        pytest.param(request(0.5, [1, 2, 3]), id="sent before the answer ended"),
        pytest.param(agent(5, request(0, [1, 2, 3])), id="another branch"),
    ],
)
def test_anything_else_stays_as_it_is(second: dict[str, Any]) -> None:
    trace = read_weka(weka(FIRST, second))

    assert assume_growth(trace) == (trace, 0)


def test_an_answer_with_reasoning_may_come_back_without_it() -> None:
    trace = read_weka(weka(FIRST | {"output_types": ["thinking"]}, request(5, [1, 2, 3])))
    counted = trace_of(
        make_call(0, 64, reasoning_tokens=1),
        make_call(1, 90, prefix=Prefix(0, 64, "blocks")),
        prefix_granularity=64,
        outputs="unknown",
    )

    assert assume_growth(trace) == (trace, 0)
    assert assume_growth(counted) == (counted, 0)


def test_a_prompt_shorter_than_a_block_shows_nothing() -> None:
    assert grown(request(0, [], tail=9, out=1), request(5, [], tail=20))[1] == (None, 0, "blocks")


def test_one_that_shares_more_with_another_call_keeps_what_is_known() -> None:
    aux = request(2, [1, 2, 3], tail=1, out=50, api_time=1)

    assert grown(FIRST, aux, request(5, [1, 2, 3, 4], out=9), request(9, [1, 2, 3, 5]))[2:] == [
        (1, 243, "assumed"),
        (1, 192, "blocks"),
    ]


def test_a_later_call_that_parts_within_the_answer_is_like_the_one_that_gave_it() -> None:
    long = request(0, [1, 2], out=200, api_time=1)

    found = grown(long, request(5, [1, 2, 3, 4, 5], tail=9), request(7, [1, 2, 3, 4], out=1), request(9, [1, 2, 3, 9]))

    assert found[1:] == [(0, 328, "assumed"), (0, 256, "blocks"), (0, 192, "blocks")]


def test_an_answer_that_is_known_is_not_assumed() -> None:
    trace = trace_of(make_call(0, 64), make_call(1, 100, prefix=Prefix(0, 64, "ids")))

    assert assume_growth(trace) == (trace, 0)


def in_blocks(trace: Trace, block_size: int) -> Trace:
    """Return a trace as a format of blocks would show it."""
    return read_weka(write_trace(trace, Fidelity(), block_size=block_size))


@given(traces(), st.sampled_from([1, 2, 3]))
def test_nothing_but_grown_prompts_of_a_branch_changes(trace: Trace, block_size: int) -> None:
    before = in_blocks(trace, block_size)

    after, assumed = assume_growth(before)

    validate(after)
    assert normalise(after) == after
    assert loads(dumps(after)) == after
    changed = 0
    for old, new in zip(before.calls(), after.calls(), strict=True):
        assert new.prefix.tokens <= new.prompt_tokens
        if new.prefix.source != "assumed":
            assert replace(new, prefix=old.prefix) == old
            assert new.prefix.tokens == old.prefix.tokens
            continue
        changed += 1
        of = predecessor(before, new)
        assert (new.prefix.tokens, new.prefix.least) == (of.stream_tokens, old.prefix.tokens)
        assert new.prefix.of == of.call or not of.completion_tokens
        assert of.prompt_tokens - block_size < old.prefix.tokens <= of.prompt_tokens
    assert changed == assumed


def predecessor(trace: Trace, call: Call) -> Call:
    line = [e for e in trace.events if isinstance(e, Call) and e.branch == call.branch]
    return next(before for before, after in pairwise(line) if after.call == call.call)


@given(traces(), st.sampled_from([1, 2, 3]))
def test_no_two_prompts_share_less_than_before(trace: Trace, block_size: int) -> None:
    before = in_blocks(trace, block_size)
    after, _ = assume_growth(before)

    forest, as_read = Forest.of_trace(after), Forest.of_trace(before)
    for a, one in enumerate(before.calls()):
        for b, other in enumerate(before.calls()):
            if a < b and one.domain == other.domain:
                common = min(forest.common_prefix(a, b), one.prompt_tokens, other.prompt_tokens)
                least = min(as_read.common_prefix(a, b), one.prompt_tokens, other.prompt_tokens)
                assert common >= least


def test_what_is_assumed_of_files_is_said(data_dir: Path) -> None:
    opened = open_traces([data_dir / "weka" / "trace_0142.json", data_dir / "weka" / "trace_0277.json"])

    found, said = assume_growth_of(opened)

    assumed = [c for one in found for c in one.trace.calls() if c.prefix.source == "assumed"]
    assert said.startswith(f"assumed for {len(assumed)} of 83 calls")
    assert len(assumed) > 20
    for before, after in zip(opened, found, strict=True):
        assert sum(planned_hits(after.trace)) > sum(planned_hits(before.trace))
        assert planned_hits(before.trace) == [min(h, c.prefix.least) for h, c in
                                              zip(planned_hits(after.trace), after.trace.calls(), strict=True)]  # fmt: skip


def test_a_region_says_nothing_of_growth() -> None:
    trace = trace_of(
        make_call(0, 64),
        ParallelStart(region=0, num_branches=1),
        make_call(1, 128, prefix=Prefix(0, 64, "blocks")),
        prefix_granularity=64,
        outputs="unknown",
    )

    assert assume_growth(trace)[1] == 1


def test_a_prompt_whose_beginning_other_sessions_have_too_holds_the_answer_before_it() -> None:
    sessions = [weka(FIRST, request(5, [1, 2, 3]), id="a", hash_id_scope="global")]
    sessions.append(weka(request(0, [1, 2, 9]), id="b", hash_id_scope="global"))
    members = read(Source.of_bytes(b"\n".join(sessions)), Fidelity())

    found, assumed = assume_growth(members[0].trace)

    assert [(c.prefix.of, c.prefix.tokens, c.prefix.least) for c in found.calls()] == [("s0", 128, 128), (0, 163, 128)]
    assert assumed == 1
