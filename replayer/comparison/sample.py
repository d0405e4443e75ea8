"""The sessions of a run as arrays, so that each number can be computed anew for any part of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rotoscope.replayer import metrics
from rotoscope.replayer.goodput import is_good
from rotoscope.replayer.metrics import Interval
from rotoscope.replayer.reading import Results
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.token_rates import isl, osl, request_time, tpot_s
from rotoscope.replayer.window import failed_times, in_flight, job_time

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class InWindow:
    """What each session did in the steady-state window, in the order of the sessions."""

    gpu_seconds: float
    """Length of the window x GPUs."""
    jobs: Floats
    """Shares of latencies that lie in the window; 0 of sessions that were not completed."""
    worked_s: Floats
    """What completed sessions had of the window."""
    taken_s: Floats
    """What all sessions had of it."""
    tokens: Floats
    """Of prompts and outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Sessions of a run in an order that all runs share, and the answered requests; NaN is what is not known."""

    latency_s: Floats
    """Of the sessions that were completed in every run."""
    window: InWindow | None
    prompt_tokens: Floats
    """Of answered requests, like the next."""
    cached_tokens: Floats | None
    """None where the server tells none."""
    ended: Floats
    """Requests that were answered or failed."""
    good: Floats | None
    """Those within the limits; None without limits."""
    owners: NDArray[np.int64]
    """The place in the order of the session of each answered request; what was measured of the request follows."""
    ttft_s: Floats
    itl_s: Floats
    tpot_s: Floats


def sample_of(results: Results, order: Sequence[int], *, completed: frozenset[int]) -> Sample:
    """Return the sessions of these numbers, in this order; `completed` are those that were so in every run."""
    places = {number: place for place, number in enumerate(order)}
    sessions = [one for one in results.sessions if one.session in places]
    requests = [one for one in results.requests if one.session in places]
    answered = [one for one in requests if one.status == "ok"]
    ended = [one for one in requests if one.status != "cancelled"]
    limits = results.summary.setup.limits
    tells_cached = any(one.cached_tokens is not None for one in answered)
    latencies_s = {
        one.session: one.latency_s for one in sessions if one.latency_s is not None and one.session in completed
    }
    return Sample(
        latency_s=_in_order(latencies_s, order, missing=np.nan),
        window=_in_window(results, sessions, requests, order),
        prompt_tokens=_sums(answered, isl, order),
        cached_tokens=_sums(answered, lambda one: one.cached_tokens or 0, order) if tells_cached else None,
        ended=_sums(ended, lambda one: 1, order),
        good=_sums(ended, lambda one: is_good(one, limits), order) if limits else None,
        owners=np.array([places[one.session] for one in answered], dtype=np.int64),
        ttft_s=_measured(one.ttft_s for one in answered),
        itl_s=_measured(one.itl_s for one in answered),
        tpot_s=_measured(tpot_s(one) for one in answered),
    )


def _in_window(
    results: Results, sessions: Sequence[SessionResult], requests: Sequence[RequestResult], order: Sequence[int]
) -> InWindow | None:
    setup = results.summary.setup
    if setup.concurrency is None:
        return None
    jobs = {one.session: job for one in sessions if (job := job_time(one)) is not None}
    times = jobs | failed_times(sessions, requests)
    window = metrics.steady_window(in_flight(sessions, times), setup.concurrency)
    if window is None:
        return None
    answered = [one for one in requests if one.status == "ok"]
    return InWindow(
        gpu_seconds=window.length_s * setup.gpus,
        jobs=_in_order({number: metrics.share_in_window(job, window) for number, job in jobs.items()}, order),
        worked_s=_in_order({number: metrics.overlap_s(job, window) for number, job in jobs.items()}, order),
        taken_s=_in_order({number: metrics.overlap_s(time, window) for number, time in times.items()}, order),
        tokens=_sums(answered, lambda one: _share(one, window) * (isl(one) + osl(one)), order),
    )


def _share(request: RequestResult, window: Interval) -> float:
    time = request_time(request)
    return 0.0 if time is None else metrics.share_in_window(time, window)


def _sums(requests: Iterable[RequestResult], value: Callable[[RequestResult], float], order: Sequence[int]) -> Floats:
    sums: defaultdict[int, float] = defaultdict(float)
    for one in requests:
        sums[one.session] += value(one)
    return _in_order(sums, order)


def _in_order(values: Mapping[int, float], order: Sequence[int], *, missing: float = 0.0) -> Floats:
    return np.array([values.get(number, missing) for number in order], dtype=np.float64)


def _measured(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
