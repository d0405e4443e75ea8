"""The plan of a load: which sessions are let in, in which order, and when; a pure function of options and seed."""

from __future__ import annotations

from dataclasses import dataclass

from rotoscope.replayer.load.draws import generator


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Sessions 0 to `sessions` - 1, let in one after the other in order of their numbers."""

    sessions: int
    concurrency: int
    """Most sessions in flight; one that finds no place waits until another ends."""
    starts_s: tuple[float, ...] = ()
    """When the first sessions may start, from the start of the run, in order; the rest may once all these have."""


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
