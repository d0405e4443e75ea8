"""The plan of a load: which sessions are let in, in which order, and when; a pure function of options and seed."""

from __future__ import annotations

from dataclasses import dataclass

from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.replayer.load.draws import generator
from rotoscope.replayer.metrics import SECONDS_PER_HOUR
from rotoscope.replayer.options import ReplayOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Sessions 0 to `sessions` - 1, let in one after the other in order of their numbers."""

    sessions: int
    concurrency: int | None
    """Most sessions in flight: one that finds no place waits until another ends. None in an open loop: nobody waits."""
    starts_s: tuple[float, ...] = ()
    """When the first sessions may start, from the start of the run, in order; the rest may once all these have."""


def plan_load(options: ReplayOptions, sessions: int) -> LoadPlan:
    """Return the plan of so many sessions."""
    if options.rate_per_h is None:
        return closed_loop(sessions, options.concurrency or 1, ramp_s=options.ramp_s, seed=options.seed)
    return open_loop(sessions, options.arrivals or POISSON, rate_per_h=options.rate_per_h, seed=options.seed)


def open_loop(sessions: int, arrivals: Arrivals, *, rate_per_h: float, seed: int) -> LoadPlan:
    """Return the plan of sessions that arrive at this rate, however many are still there."""
    starts_s = arrivals.times_s(sessions, rate_per_s=rate_per_h / SECONDS_PER_HOUR, seed=seed)
    return LoadPlan(sessions=sessions, concurrency=None, starts_s=starts_s)


def closed_loop(sessions: int, concurrency: int, *, ramp_s: float, seed: int) -> LoadPlan:
    """Return the plan of so many sessions in flight, of which the first ones start over `ramp_s` seconds.

    The first starts at once, the last that finds a free place after `ramp_s`, those between at random times, uniformly
    distributed. So the ramp takes the time asked, whatever the number of sessions and the concurrency are.
    """
    first = min(sessions, concurrency) if ramp_s else 0
    return LoadPlan(sessions=sessions, concurrency=concurrency, starts_s=_ramp(first, ramp_s, seed))


def _ramp(count: int, ramp_s: float, seed: int) -> tuple[float, ...]:
    if count < 2:
        return (0.0,) * count
    draws = generator(seed, "ramp")
    return (0.0, *sorted(ramp_s * draws.random() for _ in range(count - 2)), ramp_s)
