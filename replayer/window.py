"""The steady-state window of a run and what was done in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.backlog import latency_growth, open_window
from rotoscope.replayer.bootstrap import Bounds, ratio_interval
from rotoscope.replayer.metrics import SECONDS_PER_HOUR, Credit, Interval
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.token_rates import Sessions, TokenRates, token_rates_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """What arrived in the window of an open loop, and whether the server kept up with it."""

    arrivals: int
    """Sessions that were let in."""
    offered_per_h_per_gpu: float
    mean_in_flight: float
    """Sessions."""
    latency_growth: float | None
    """Seconds that a session takes longer for each second that it starts later; None of too few jobs."""
    latency_growth_at_least: float | None
    """With a confidence of 99.5 %."""
    overloaded: bool | None
    """Whether the growth is surely more than a hundredth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The steady-state window and the rates over it."""

    opens_s: float
    closes_s: float
    jobs: float
    """Each with the share of its latency that lies in the window; those that end in it, where jobs may pile up."""
    mean_job_latency_s: float
    mean_job_latency_interval_s: Bounds | None
    mean_latency_of_begun_s: float | None = None
    """Of the jobs that begin in the window: more than the mean in it where long ones are still rare there."""
    jobs_per_h_per_user: float
    jobs_per_h_per_user_interval: Bounds | None
    jobs_per_h_per_gpu: float
    jobs_per_h_per_gpu_interval: Bounds | None
    jobs_per_h_per_gpu_half_width: float | None = None
    """Half of the interval over the number."""
    whole_jobs: int
    """The field's rule: jobs that end in the window."""
    whole_jobs_per_h_per_gpu: float
    tokens: TokenRates
    open_loop: OpenLoop | None = None
    """None in a closed loop."""

    @property
    def excess_of_begun(self) -> float | None:
        """By how much jobs that begin in the window take longer than the mean in it, over that mean; None in an open loop."""
        if self.open_loop is not None or self.mean_latency_of_begun_s is None:
            return None
        return self.mean_latency_of_begun_s / self.mean_job_latency_s - 1

    @property
    def credit(self) -> Credit:
        """What a job or a request counts in this window."""
        return _credit(self.open_loop)


def window_of(setup: Setup, sessions: Sequence[SessionResult], requests: Sequence[RequestResult]) -> Window | None:
    """Return the window of a run that was not interrupted; None where it has none, or there is no job in it."""
    done = {one.session: job for one in sessions if (job := job_time(one)) is not None}
    jobs = [*done.values()]
    failed = failed_times(sessions, requests)
    admissions_s = sorted(one.admitted_s for one in sessions)
    if setup.concurrency is None:
        window = open_window(admissions_s, jobs)
    else:
        window = metrics.steady_window(in_flight(sessions, done | failed), setup.concurrency)
    latency_s = metrics.mean_job_latency_in_window_s(jobs, window) if window else None
    if window is None or latency_s is None:
        return None
    drawn = Sessions(done | failed, setup.seed, in_open_loop=setup.concurrency is None)
    loop = _open_loop(window, admissions_s, drawn, jobs, gpus=setup.gpus) if drawn.in_open_loop else None
    credit = _credit(loop)
    count = metrics.jobs_in_window(jobs, window, credit)
    whole = metrics.whole_jobs_in_window(jobs, window)
    intervals = _Intervals.of(window, jobs, drawn, credit=credit)
    per_gpu = metrics.jobs_per_h_per_gpu(count, window, setup.gpus)
    per_gpu_interval = _times(intervals.share, per_gpu)
    return Window(
        opens_s=window.start_s,
        closes_s=window.end_s,
        jobs=count,
        mean_job_latency_s=latency_s,
        mean_job_latency_interval_s=intervals.latency_s,
        mean_latency_of_begun_s=metrics.mean_latency_of_begun_s(jobs, window),
        jobs_per_h_per_user=metrics.jobs_per_h_per_user(latency_s),
        jobs_per_h_per_user_interval=_times(intervals.jobs_per_s, SECONDS_PER_HOUR),
        jobs_per_h_per_gpu=per_gpu,
        jobs_per_h_per_gpu_interval=per_gpu_interval,
        jobs_per_h_per_gpu_half_width=per_gpu_interval.half_width / per_gpu if per_gpu_interval and per_gpu else None,
        whole_jobs=whole,
        whole_jobs_per_h_per_gpu=metrics.jobs_per_h_per_gpu(whole, window, setup.gpus),
        tokens=token_rates_of(window, requests, gpus=setup.gpus, sessions=drawn, credit=credit),
        open_loop=loop,
    )


def _credit(loop: OpenLoop | None) -> Credit:
    """Return what counts: shares in a closed loop, and in an open one that the server surely keeps up with."""
    return metrics.share_in_window if loop is None or loop.overloaded is False else metrics.ends_in_window


def _open_loop(
    window: Interval, admissions_s: Sequence[float], sessions: Sessions, jobs: Sequence[Interval], *, gpus: int
) -> OpenLoop:
    arrivals = metrics.arrivals_in_window(admissions_s, window)
    later = latency_growth([job for job in jobs if job.start_s >= window.start_s])
    return OpenLoop(
        arrivals=arrivals,
        offered_per_h_per_gpu=metrics.jobs_per_h_per_gpu(arrivals, window, gpus),
        mean_in_flight=metrics.mean_in_flight(sessions.times.values(), window),
        latency_growth=later.growth if later else None,
        latency_growth_at_least=later.at_least if later else None,
        overloaded=later.is_overload if later else None,
    )


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Intervals of what the sessions did in the window."""

    latency_s: Bounds | None
    jobs_per_s: Bounds | None
    """Jobs done a second of a completed session."""
    share: Bounds | None
    """Jobs done a second of any session, or in an open loop each session, over what it was; None without one done."""

    @classmethod
    def of(cls, window: Interval, jobs: Sequence[Interval], sessions: Sessions, *, credit: Credit) -> _Intervals:
        """`jobs` are the completed ones of the sessions, which they stand first of."""
        shares = [metrics.share_in_window(job, window) for job in jobs]
        worked_s = [metrics.overlap_s(job, window) for job in jobs]
        taken, seed = [*sessions.taken(window).values()], sessions.seed
        credits = [credit(job, window) for job in jobs]
        of_all = ratio_interval([*credits, *[0.0] * (len(taken) - len(credits))], taken, seed=seed)
        return cls(
            latency_s=ratio_interval(worked_s, shares, seed=seed),
            jobs_per_s=ratio_interval(shares, worked_s, seed=seed),
            share=_times(of_all, sum(taken) / sum(credits)) if any(credits) else None,
        )


def job_time(session: SessionResult) -> Interval | None:
    """Return when a session was at work; None unless it was completed."""
    if session.start_s is None or session.latency_s is None:
        return None
    return Interval(session.start_s, session.start_s + session.latency_s)


def in_flight(sessions: Sequence[SessionResult], times: Mapping[int, Interval]) -> list[Interval]:
    """Return when each session was there, from its admission on; `times` are those of the sessions that were at work."""
    return [
        Interval(one.admitted_s, times[one.session].end_s if one.session in times else one.admitted_s)
        for one in sessions
    ]


def failed_times(sessions: Sequence[SessionResult], requests: Sequence[RequestResult]) -> dict[int, Interval]:
    """Return the time of each session, by its number, that was not completed, up to the end of its last request."""
    ends_s: dict[int, float] = {}
    for one in requests:
        if one.start_s is not None:
            ends_s[one.session] = max(ends_s.get(one.session, 0.0), one.start_s + (one.latency_s or 0.0))
    return {
        one.session: Interval(one.start_s, ends_s[one.session])
        for one in sessions
        if one.start_s is not None and one.latency_s is None and one.session in ends_s
    }


def _times(bounds: Bounds | None, factor: float) -> Bounds | None:
    return None if bounds is None else bounds.times(factor)
