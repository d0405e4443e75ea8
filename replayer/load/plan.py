"""The plan of a load: which sessions are let in, in which order, and when; a pure function of options and seed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from math import inf
from typing import Literal, TypeAlias

from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.replayer.load.draws import generator
from rotoscope.replayer.load.mix import mixed
from rotoscope.replayer.load.recorded import recorded_arrivals
from rotoscope.replayer.metrics import SECONDS_PER_HOUR
from rotoscope.replayer.options import MOST, MOST_PLANNED, ReplayOptions
from rotoscope.traces.errors import UnusableInput

MOST_SESSIONS = 10_000
"""Of a closed loop that has a duration or a precision instead of a number; prompts are told apart for so many."""

EndedBy: TypeAlias = Literal["sessions", "duration", "interval", "interruption"]
"""Why no more sessions were let in: there were no more, time was up, jobs/h was known, somebody wanted it so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Which sessions are let in one after the other; session i performs trace i modulo their number."""

    numbers: Sequence[int]
    """Of the sessions, each once, in the order in which they are let in."""
    concurrency: int | None
    """Most sessions in flight: one that finds no place waits until another ends. None in an open loop: nobody waits."""
    starts_s: tuple[float, ...] = ()
    """When the first sessions may start, from the start of the run, in order; the rest may once all these have."""
    duration_s: float | None = None
    """After which no session is let in; None lets all in."""
    ends_by: EndedBy = "sessions"
    """Why there are no more sessions, if nothing else ends the run before."""
    until_ci: float | None = None
    """Half-width of the interval of jobs/h, over jobs/h, from which on no session is let in."""

    @property
    def sessions(self) -> int:
        return len(self.numbers)

    @property
    def is_open_ended(self) -> bool:
        """Whether it may end before all its sessions were let in."""
        return self.duration_s is not None or self.until_ci is not None

    @property
    def numbered(self) -> int:
        """Sessions that there are numbers for, whether they are let in or not."""
        return max(self.numbers, default=-1) + 1


def plan_load(options: ReplayOptions, *, traces: int) -> LoadPlan:
    """Return the plan of a replay of so many traces: each once, unless the options say how many or how long."""
    if options.fixed and options.has_no_end:
        raise UnusableInput(
            "requests of a fixed shape have no end of their own: give --sessions, --duration or --until-ci"
        )
    plan = _plan_times(options, traces)
    if plan.sessions > MOST_PLANNED:
        raise UnusableInput(
            f"more than {MOST_PLANNED:,} sessions would arrive: give --sessions, or less --rate or --duration"
        )
    if plan.starts_s and plan.starts_s[-1] > MOST:
        raise UnusableInput(f"the last session would arrive after {plan.starts_s[-1]:.3g} s: give more --rate")
    return replace(plan, numbers=mixed(options.mix, plan.sessions)) if options.mix else plan


def _plan_times(options: ReplayOptions, traces: int) -> LoadPlan:
    sessions, duration_s = options.sessions, options.duration_s
    if options.recorded_starts_s is not None:
        return recorded_loop(
            options.recorded_starts_s,
            rate_per_h=options.rate_per_h,
            seed=options.seed,
            sessions=sessions,
            duration_s=duration_s,
        )
    if options.rate_per_h is not None:
        return open_loop(
            traces if sessions is None and duration_s is None else sessions,
            options.arrivals or POISSON,
            rate_per_h=options.rate_per_h,
            seed=options.seed,
            duration_s=duration_s,
        )
    if sessions is None:
        sessions = traces if duration_s is None and options.until_ci is None else MOST_SESSIONS
    plan = closed_loop(sessions, options.concurrency or 1, ramp_s=options.ramp_s, seed=options.seed)
    return replace(plan, duration_s=duration_s, until_ci=options.until_ci)


def open_loop(
    sessions: int | None, arrivals: Arrivals, *, rate_per_h: float, seed: int, duration_s: float | None = None
) -> LoadPlan:
    """Return the plan of sessions that arrive at this rate, however many are still there.

    One of `sessions` and `duration_s` at least says where they end.
    """
    most = MOST_PLANNED + 1 if sessions is None else sessions
    times_s: Iterator[float] = islice(arrivals.times_s(rate_per_s=rate_per_h / SECONDS_PER_HOUR, seed=seed), most)
    if duration_s is not None:
        times_s = takewhile(lambda time_s: time_s < duration_s, times_s)
    starts_s = tuple(times_s)
    return LoadPlan(
        numbers=range(len(starts_s)),
        concurrency=None,
        starts_s=starts_s,
        duration_s=duration_s,
        ends_by="sessions" if duration_s is None or len(starts_s) == sessions else "duration",
    )


def recorded_loop(
    recorded_s: Sequence[float],
    *,
    rate_per_h: float | None,
    seed: int,
    sessions: int | None = None,
    duration_s: float | None = None,
) -> LoadPlan:
    """Return the plan of sessions that arrive as recorded, the first of them if there are too many or too late ones.

    Raise UnusableInput where more are asked for than arrive in the time recorded.
    """
    starts_s, numbers = recorded_arrivals(recorded_s, rate_per_h=rate_per_h, seed=seed)
    if sessions is not None and sessions > len(starts_s):
        raise UnusableInput(
            f"{len(starts_s)} sessions arrive in the time recorded: give fewer --sessions or more --rate"
        )
    end = len(starts_s) if duration_s is None else bisect_left(starts_s, duration_s)
    end = end if sessions is None else min(end, sessions)
    return LoadPlan(
        numbers=numbers[:end],
        concurrency=None,
        starts_s=starts_s[:end],
        duration_s=duration_s,
        ends_by="duration" if duration_s is not None and end < min(len(starts_s), sessions or inf) else "sessions",
    )


def closed_loop(sessions: int, concurrency: int, *, ramp_s: float, seed: int) -> LoadPlan:
    """Return the plan of so many sessions in flight, of which the first ones start over `ramp_s` seconds.

    The first starts at once, the last that finds a free place after `ramp_s`, those between at random times, uniformly
    distributed. So the ramp takes the time asked, whatever the number of sessions and the concurrency are.
    """
    first = min(sessions, concurrency) if ramp_s else 0
    return LoadPlan(numbers=range(sessions), concurrency=concurrency, starts_s=_ramp(first, ramp_s, seed))


def _ramp(count: int, ramp_s: float, seed: int) -> tuple[float, ...]:
    if count < 2:
        return (0.0,) * count
    draws = generator(seed, "ramp")
    return (0.0, *sorted(ramp_s * draws.random() for _ in range(count - 2)), ramp_s)
