"""Replays against a real engine: its own count of cached tokens is the realised optimum of its profile, call by call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from engine.agent_shapes import SHAPES, forking, parallel, rewinding_further_each_time_less, single_branch
from engine.llama_server import FOUR_SLOTS, ONE_SLOT, llama_server

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay
from rotoscope.replayer.summary import Summary
from rotoscope.traces import Trace


@pytest.fixture(scope="module")
def one_slot(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tiny_model, ONE_SLOT, tmp_path_factory.mktemp("one") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def four_slots(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tiny_model, FOUR_SLOTS, tmp_path_factory.mktemp("four") / "log") as url:
        yield url


def replayed(
    traces: Sequence[Trace], url: str, folder: Path, *, sessions: int = 1, concurrency: int | None = None
) -> Summary:
    options = ReplayOptions(
        url=url, profile="llama.cpp", sessions=sessions, concurrency=concurrency, folder=folder, timeout_s=60
    )
    return replay(traces, options)


def measured_and_optimal(summary: Summary) -> list[tuple[int | None, int]]:
    """Return cached tokens and optimum of each request, in the order in which they were sent."""
    both = sorted(
        zip(summary.request_results, summary.optimal_tokens, strict=True), key=lambda pair: pair[0].start_s or 0.0
    )
    return [(result.cached_tokens, optimum) for result, optimum in both]


@pytest.mark.parametrize(("name", "trace"), SHAPES)
def test_cached_tokens_of_every_call_equal_the_realised_optimum(
    name: str, trace: Trace, one_slot: str, tmp_path: Path
) -> None:
    summary = replayed([trace], one_slot, tmp_path)

    pairs = measured_and_optimal(summary)
    print(f"\n{name}: cached, optimum = {pairs}")
    assert summary.is_complete
    assert summary.without_ids == summary.isl_mismatches == summary.osl_mismatches == 0
    assert [cached for cached, _ in pairs] == [optimum for _, optimum in pairs]


def test_a_stored_history_is_passed_over_where_less_of_it_would_be_kept(one_slot: str, tmp_path: Path) -> None:
    # llama-server loads a stored prompt only if more of it is shared, as a share of its length too, than of the prompt
    # in the slot: the longer match in a longer history stays unused, and measured is below the optimum.
    summary = replayed([rewinding_further_each_time_less()], one_slot, tmp_path)

    pairs = measured_and_optimal(summary)
    assert [optimum for _, optimum in pairs] == [0, 539, 420, 517]
    assert all(cached is not None and cached <= optimum for cached, optimum in pairs)


def test_outputs_are_fed_back_and_found_in_the_cache(one_slot: str, tmp_path: Path) -> None:
    trace = single_branch()

    summary = replayed([trace], one_slot, tmp_path)

    for (cached, _), (last, call) in zip(
        measured_and_optimal(summary)[1:], zip(trace.calls(), list(trace.calls())[1:], strict=False), strict=True
    ):
        assert call.prefix.tokens == last.stream_tokens
        assert cached == last.stream_tokens - 1  # the last token that was sampled is never computed


def test_a_second_run_on_the_warm_server_measures_the_same(one_slot: str, tmp_path: Path) -> None:
    cold = replayed([forking()], one_slot, tmp_path / "cold")
    warm = replayed([forking()], one_slot, tmp_path / "warm")

    assert measured_and_optimal(cold)[1:] == measured_and_optimal(warm)[1:]
    assert measured_and_optimal(cold)[0] == measured_and_optimal(warm)[0] == (0, 0)


def test_many_sessions_on_four_slots_stay_at_or_below_the_optimum(four_slots: str, tmp_path: Path) -> None:
    summary = replayed([trace for _, trace in SHAPES], four_slots, tmp_path, sessions=10, concurrency=4)

    pairs = measured_and_optimal(summary)
    print(f"\nfour slots: {summary.cache.cached_tokens} of {summary.cache.optimal_tokens} tokens of the optimum")
    assert summary.is_complete
    assert summary.isl_mismatches == summary.osl_mismatches == 0
    assert all(cached is not None and cached <= optimum for cached, optimum in pairs)
    assert sum(cached or 0 for cached, _ in pairs) > 0


def test_parallel_branches_overlap_on_the_engine(four_slots: str, tmp_path: Path) -> None:
    summary = replayed([parallel()], four_slots, tmp_path)

    first_turns = [one for one in summary.request_results if one.call in (1, 2, 3)]
    starts = [one.start_s or 0.0 for one in first_turns]
    ends = [(one.start_s or 0.0) + (one.latency_s or 0.0) for one in first_turns]
    assert max(starts) < min(ends)


@pytest.mark.parametrize("shape", [trace for _, trace in SHAPES], ids=[name for name, _ in SHAPES])
def test_a_good_run_is_valid_whatever_its_slots_lose(shape: Trace, four_slots: str, tmp_path: Path) -> None:
    summary = replayed([shape], four_slots, tmp_path, sessions=14, concurrency=1)

    assert summary.validity is not None
    print(f"\n{[(gate.name, gate.passed, gate.measured) for gate in summary.validity.gates]}")
    assert {gate.name for gate in summary.validity.failed} <= {"lag"}  # which is this machine's
    assert {gate.name for gate in summary.validity.unchecked} <= {"lag"}
