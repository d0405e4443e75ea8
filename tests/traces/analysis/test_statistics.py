from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import (
    Call,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.analysis.profiles import PROFILES
from rotoscope.traces.analysis.statistics import Distribution, describe, distribution
from rotoscope.traces.model import Branch


def call(
    number: int, prompt: int, output: int, prefix: Prefix, *, at_ms: float | None = None, branch: Branch | None = None
) -> Call:
    return Call(
        call=number,
        conversation_id=0 if branch is None else 1 + branch[1],
        message_index=0,
        prompt_tokens=prompt,
        completion_tokens=output,
        prefix=prefix,
        at_ms=at_ms,
        duration_ms=None if at_ms is None else 100.0,
        branch=branch,
        cached_tokens=prompt // 2 if number else None,
    )


def trace(*events: TraceEvent) -> Trace:
    return Trace(
        trace_id="00000000",
        campaign="11111111",
        token_source="usage",
        shared_prefixes=(
            SharedPrefix("s0", "system", 40),
            SharedPrefix("s1", "group", 50, SharedPrefixLink("s0", 30)),
        ),
        events=events,
    )


def test_figures_of_a_small_trace() -> None:
    statistics = describe(
        trace(
            call(0, 60, 10, Prefix("s0", 40, "text"), at_ms=0),
            ToolCall(tool_call_id="t0", tool_name="tool1", duration_ms=1500.0),
            Wait(kind="human", duration_ms=250.0),
            call(1, 90, 20, Prefix(0, 70, "text", 60, 75), at_ms=1850),
        )
    )

    assert statistics.calls == 2
    assert statistics.turns == 2
    assert statistics.isl == (60, 90)
    assert statistics.osl == (10, 20)
    assert (statistics.last_isl, statistics.last_osl) == (90, 20)
    assert (statistics.tool_calls, statistics.tool_s, statistics.wait_s) == (1, 1.5, 0.25)
    assert statistics.duration_s == 1.95
    assert statistics.parallelism == 1
    assert statistics.system_tokens == 80
    assert statistics.hit_tokens == {"low": 40 + 60, "n": 40 + 70, "high": 40 + 75}
    assert statistics.hit_rate() == 110 / 150
    assert statistics.live_hit_rate == 45 / 90


def test_domains_calls_beside_the_work_and_reasoning_are_counted() -> None:
    main = replace(call(0, 60, 10, Prefix(None, 0, "text")), reasoning_tokens=4)
    title = replace(call(1, 20, 5, Prefix(None, 0, "text")), aux=True, domain=1, reasoning_tokens=2)

    statistics = describe(trace(main, title))

    assert (statistics.calls, statistics.aux_calls, statistics.domains) == (2, 1, 2)
    assert statistics.reasoning_tokens == 6


def test_a_profile_counts_whole_blocks() -> None:
    one = trace(call(0, 60, 10, Prefix(None, 0, "text")), call(1, 90, 20, Prefix(0, 70, "text")))

    assert describe(one, Assumptions(profile=PROFILES["vllm"])).hit_tokens["n"] == 64


def test_system_share_ends_where_a_group_prefix_leaves_it() -> None:
    statistics = describe(trace(call(0, 60, 10, Prefix("s1", 45, "text")), call(1, 35, 1, Prefix(0, 20, "text"))))

    assert statistics.system_tokens == 30 + 20


def test_calls_that_overlap_in_time_are_counted_as_parallel() -> None:
    start = ParallelStart(region=0, num_branches=3)
    calls = [call(i, 10, 1, Prefix(None, 0, "text"), at_ms=at, branch=(0, i)) for i, at in enumerate((0, 50, 100))]

    assert describe(trace(start, *calls)).parallelism == 2


def test_without_times_the_open_branches_that_call_are_counted() -> None:
    events: list[TraceEvent] = [
        ParallelStart(region=0, num_branches=3),
        call(0, 10, 1, Prefix(None, 0, "text"), branch=(0, 0)),
        call(1, 10, 1, Prefix(None, 0, "text"), branch=(0, 2)),
        ParallelEnd(region=0),
        ParallelStart(region=1, num_branches=1),
        call(2, 10, 1, Prefix(None, 0, "text"), branch=(1, 0)),
    ]

    assert describe(trace(*events)).parallelism == 2


def test_only_branches_with_calls_cost_time() -> None:
    start = ParallelStart(region=0, num_branches=2**31 - 1)

    assert describe(trace(start, call(0, 10, 1, Prefix(None, 0, "text"), branch=(0, 7)))).parallelism == 1


def test_an_empty_trace_has_figures_too() -> None:
    statistics = describe(trace())

    assert (statistics.calls, statistics.parallelism, statistics.hit_rate()) == (0, 0, 0.0)
    assert statistics.live_hit_rate is None
    assert distribution(()) == Distribution(0, 0, 0, 0)


@given(st.lists(st.integers(0, 10_000), min_size=1))
def test_percentiles_are_those_of_numpy(values: list[int]) -> None:
    spread = distribution(values)

    expected = np.percentile(values, [50, 90, 99])
    assert [spread.median, spread.p90, spread.p99] == pytest.approx(list(expected))
    assert spread.max == max(values)
