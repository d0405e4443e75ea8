from __future__ import annotations

import numpy as np
import pytest

from rotoscope.replayer.comparison.measures import Kept
from rotoscope.replayer.comparison.sample import Floats
from rotoscope.replayer.comparison.spread import Numbers, critical_value, spread_of

TRIALS = 100


def means_of(values: Floats) -> Numbers:
    """Return the numbers of a run that are means over its sessions, a row each."""

    def numbers(kept: Kept) -> Floats:
        found: Floats = values[kept].mean(axis=0)
        return found

    return numbers


def spells(random: np.random.Generator, *, sessions: int, length: float) -> Floats:
    """Return an autoregressive series, whose values forget each other over so many sessions."""
    keeps = np.exp(-1 / length)
    series = [random.normal()]
    for _ in range(sessions - 1):
        series.append(keeps * series[-1] + (1 - keeps**2) ** 0.5 * random.normal())
    return np.array(series)[:, None]


def false_verdicts(make: object, *, sessions: int, in_flight: float, confidence: float = 0.95) -> float:
    random, found = np.random.default_rng(3), 0
    for _ in range(TRIALS):
        a, b = (means_of(make(random)) for _ in range(2))  # type: ignore[operator]
        spread = spread_of([a], [b], sessions=sessions, in_flight=in_flight, confidence=confidence)
        found += bool((np.abs(spread.differences) > spread.half_widths).any())
    return found / TRIALS


@pytest.mark.parametrize(
    ("units", "confidence", "expected"),
    [((5,), 0.95, 2.776), ((10,), 0.95, 2.262), ((5,), 0.99, 4.604), ((3, 3), 0.95, 2.776), ((2, 4), 0.95, 2.776)],
)
def test_one_number_keeps_to_student_s_t(units: tuple[int, ...], confidence: float, expected: float) -> None:
    residuals = np.random.default_rng(1).normal(size=(32, 1))

    assert critical_value(residuals, units, confidence) == pytest.approx(expected, rel=0.05)


def test_numbers_that_say_the_same_cost_nothing_and_others_do() -> None:
    one, *others = np.random.default_rng(1).normal(size=(5, 400))

    alone = critical_value(one[:, None], (10,), 0.95)
    alike = critical_value(np.column_stack([one, -one, 3 * one]), (10,), 0.95)
    different = critical_value(np.column_stack([one, *others]), (10,), 0.95)

    assert alike == pytest.approx(alone, rel=0.03)
    sidak_of_five_at_nine_degrees = 3.22
    assert different == pytest.approx(sidak_of_five_at_nine_degrees, rel=0.05)


def test_numbers_without_spread_or_unknown_ones_do_not_count() -> None:
    one = np.random.default_rng(1).normal(size=(32, 1))
    constant, unknown = np.ones((32, 1)), np.full((32, 1), np.nan)

    assert critical_value(np.hstack([one, constant, unknown]), (5,), 0.95) == critical_value(one, (5,), 0.95)
    assert critical_value(constant, (5,), 0.95) == 0.0


def test_a_run_and_itself_do_not_differ_at_all() -> None:
    run = means_of(np.random.default_rng(1).normal(size=(40, 3)))

    spread = spread_of([run], [run], sessions=40, in_flight=4, confidence=0.95)

    assert (spread.differences == 0).all()
    assert (spread.half_widths == 0).all()


def test_what_every_session_has_in_common_is_no_chance() -> None:
    values = np.random.default_rng(1).normal(size=(40, 1))

    spread = spread_of([means_of(values)], [means_of(values + 0.25)], sessions=40, in_flight=4, confidence=0.99)

    assert spread.differences[0] == pytest.approx(0.25)
    assert spread.half_widths[0] == pytest.approx(0.0, abs=1e-12)


def test_of_all_numbers_together_so_few_have_a_false_verdict() -> None:
    share = false_verdicts(lambda random: random.normal(size=(60, 6)), sessions=60, in_flight=1)

    assert share <= 0.05


def test_long_parts_that_agree_by_luck_do_not_count_alone() -> None:
    changing = np.tile([1.0, -1.0], 20)[:, None]

    spread = spread_of([means_of(np.zeros((40, 1)))], [means_of(changing)], sessions=40, in_flight=4, confidence=0.95)

    assert spread.differences[0] == 0.0
    assert spread.half_widths[0] > 0.3


def test_spells_that_slow_neighbours_are_not_taken_for_chance_that_evens_out() -> None:
    share = false_verdicts(lambda random: spells(random, sessions=96, length=4), sessions=96, in_flight=4)

    assert share <= 0.08


def test_runs_that_differ_each_time_need_repeats() -> None:
    """Every run has a level of its own: within one nothing tells, over several it does."""

    def runs(random: np.random.Generator, number: int) -> list[Numbers]:
        return [means_of(random.normal() + 0.1 * random.normal(size=(40, 2))) for _ in range(number)]

    def share(repeats: int) -> float:
        random, found = np.random.default_rng(5), 0
        for _ in range(TRIALS):
            a, b = runs(random, repeats), runs(random, repeats)
            spread = spread_of(a, b, sessions=40, in_flight=1, confidence=0.95)
            found += bool((np.abs(spread.differences) > spread.half_widths).any())
        return found / TRIALS

    assert share(1) > 0.5
    assert share(3) <= 0.08


@pytest.mark.parametrize(("sessions", "in_flight"), [(4, 1.0), (31, 16.0)])
def test_too_few_sessions_have_no_interval(sessions: int, in_flight: float) -> None:
    run = means_of(np.random.default_rng(1).normal(size=(sessions, 1)))

    spread = spread_of([run], [run], sessions=sessions, in_flight=in_flight, confidence=0.95)

    assert np.isnan(spread.half_widths).all()


def test_a_number_that_is_unknown_without_some_sessions_has_no_interval() -> None:
    def rarely(kept: Kept) -> Floats:
        return np.array([1.0 if kept[7] else np.nan, kept.mean()])

    spread = spread_of([rarely], [rarely], sessions=40, in_flight=4, confidence=0.95)

    assert np.isnan(spread.half_widths[0])
    assert not np.isnan(spread.half_widths[1])
