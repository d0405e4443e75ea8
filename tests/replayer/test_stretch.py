from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.metrics import Interval, Level
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.stretch import counted, level_of


def counts_of(*points: tuple[float, float | None]) -> list[ServerSample]:
    return [ServerSample(at_s=at_s, prompt=value) for at_s, value in points]


def running_of(*points: tuple[float, float | None]) -> list[ServerSample]:
    return [ServerSample(at_s=at_s, running=value) for at_s, value in points]


def test_counters_grow_evenly_between_samples() -> None:
    samples = counts_of((0.0, 0.0), (1.0, 100.0), (2.0, 400.0))

    assert counted(samples, "prompt", Interval(0.0, 2.0)) == 400.0
    assert counted(samples, "prompt", Interval(0.5, 1.5)) == 200.0
    assert counted(samples, "prompt", Interval(1.0, 1.0)) == 0.0


def test_behind_the_last_sample_nothing_more_is_counted() -> None:
    assert counted(counts_of((0.0, 0.0), (1.0, 100.0)), "prompt", Interval(0.0, 3.0)) == 100.0


def test_a_counter_that_is_not_known_at_an_edge_is_not_known() -> None:
    samples = counts_of((0.0, 0.0), (1.0, 100.0), (2.0, None))

    assert counted(samples, "prompt", Interval(0.0, 1.0)) == 100.0
    assert counted(samples, "prompt", Interval(0.0, 1.5)) is None
    assert counted([], "prompt", Interval(0.0, 1.0)) is None


def test_a_counter_that_shows_itself_once_it_is_used_counts_from_zero() -> None:
    samples = counts_of((0.0, None), (1.0, None), (2.0, 100.0), (3.0, 400.0))

    assert counted(samples, "prompt", Interval(0.0, 3.0)) == 400.0
    assert counted(samples, "prompt", Interval(0.0, 1.0)) == 0.0
    assert counted(samples, "prompt", Interval(1.5, 3.0)) == 350.0


def test_nothing_is_said_about_what_was_long_before_the_first_sample() -> None:
    samples = counts_of((20.0, 0.0), (21.0, 100.0), (22.0, 400.0))

    assert counted(samples, "prompt", Interval(12.0, 22.0)) == 400.0
    assert counted(samples, "prompt", Interval(5.0, 22.0)) is None


def test_nothing_is_said_about_an_edge_within_a_gap() -> None:
    samples = counts_of((0.0, 0.0), (1.0, 100.0), (12.0, 400.0), (13.0, 500.0), (23.0, 600.0))

    assert counted(samples, "prompt", Interval(0.0, 6.0)) is None
    assert counted(samples, "prompt", Interval(0.0, 13.0)) == 500.0
    assert counted(samples, "prompt", Interval(13.0, 18.0)) == 50.0
    assert counted(samples, "prompt", Interval(13.0, 34.0)) is None


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20), st.integers(1, 7))
def test_parts_of_a_run_count_together_what_the_run_counts(steps: list[int], parts: int) -> None:
    values = [float(sum(steps[: number + 1])) for number in range(len(steps))]
    samples = counts_of(*((float(at), value) for at, value in enumerate(values)))
    end_s = float(len(steps) - 1)
    edges = [end_s * number / parts for number in range(parts)] + [end_s]

    of_parts = [counted(samples, "prompt", Interval(*pair)) for pair in pairwise(edges)]

    assert sum(part for part in of_parts if part is not None) == pytest.approx(values[-1] - values[0])


def test_a_gauge_is_what_its_nearest_sample_tells() -> None:
    samples = running_of((0.0, None), (0.5, 2.0), (1.5, 4.0), (3.5, 10.0))

    level = level_of(samples, "running", Interval(0.0, 4.0))

    assert level == Level(mean=(1.0 * 2 + 1.5 * 4 + 1.5 * 10) / 4, p50=4.0, max=10.0)


def test_a_window_takes_of_each_sample_what_lies_in_it() -> None:
    samples = running_of((0.5, 100.0), (1.5, 4.0), (2.5, 8.0), (3.5, 100.0))

    assert level_of(samples, "running", Interval(1.0, 3.0)) == Level(mean=6.0, p50=4.0, max=8.0)
    assert level_of(samples, "running", Interval(1.25, 1.75)) == Level(mean=4.0, p50=4.0, max=4.0)


def test_a_gap_counts_for_nobody() -> None:
    samples = running_of((0.5, 2.0), (60.5, 4.0))

    level = level_of(samples, "running", Interval(0.0, 61.0))

    assert level is not None
    assert level.mean == pytest.approx((5.5 * 2 + 5.5 * 4) / 11)
    assert level_of(samples, "running", Interval(20.0, 40.0)) is None


def test_a_gauge_that_is_not_told_has_no_level() -> None:
    assert level_of(running_of((0.5, None)), "running", Interval(0.0, 1.0)) is None
    assert level_of([], "running", Interval(0.0, 1.0)) is None


@given(st.lists(st.tuples(st.floats(0.1, 30.0), st.integers(0, 9)), min_size=1, max_size=30), st.floats(0.0, 200.0))
def test_a_level_of_all_time_is_that_of_its_halves(steps: list[tuple[float, int]], split_s: float) -> None:
    at_s, samples = 0.0, []
    for step_s, value in steps:
        at_s += step_s
        samples += running_of((at_s, float(value)))
    halves = [Interval(0.0, split_s), Interval(split_s, 1000.0)]

    whole = level_of(samples, "running", Interval(0.0, 1000.0))
    parts = [level for half in halves if (level := level_of(samples, "running", half)) is not None]

    assert whole is not None
    assert max(part.max for part in parts) == whole.max
    assert min(part.mean for part in parts) <= whole.mean + 1e-9
    assert max(part.mean for part in parts) >= whole.mean - 1e-9
