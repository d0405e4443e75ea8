"""Every number that a replay reports, each one function with its formula, unit and source; docs/metrics.md lists them.

Times are seconds of one monotonic clock. A job is one session that was completed, from its first request to its last
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

SECONDS_PER_HOUR = 3600.0
_SETTLED_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean and percentiles of a metric, in its unit."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Level:
    """What a gauge was over a stretch of time."""

    mean: float
    p50: float
    max: float


@dataclass(frozen=True, slots=True)
class Interactivity:
    """Output tokens a second of a request from end to end, that so many percent of the requests reach."""

    p50: float
    p90: float
    p99: float


def ttft_s(sent_s: float, first_token_s: float) -> float:
    """Return the time to first token: from sending the request to the arrival of the first event that has a token.

    Source: the field's definition (vLLM, AIPerf); it includes opening a connection where none could be used again.
    """
    return first_token_s - sent_s


def ttfo_s(sent_s: float, first_output_s: float) -> float:
    """Return the time to first output token: from sending the request to the first event that brings more than reasoning.

    Source: AIPerf, which counts text and arguments of tools. Without reasoning it is the TTFT.
    """
    return first_output_s - sent_s


def itl_s(first_token_s: float, last_token_s: float, *, output_tokens: int, first_event_tokens: int) -> float | None:
    """Return the mean inter-token latency of one answer: (t_last - t_first) / (OSL - tokens in the first event).

    Source: AIPerf, which says why the tokens of the first event do not count: they had no token before them. None for an
    answer of one event.
    """
    later_tokens = output_tokens - first_event_tokens
    return (last_token_s - first_token_s) / later_tokens if later_tokens > 0 else None


def tpot_s(ttft_s: float, latency_s: float, *, output_tokens: int) -> float | None:
    """Return the time per output token: (latency - TTFT) / (OSL - 1).

    Source: vLLM's benchmark, TensorRT-LLM's trace replay. Unlike the ITL it counts what came with the first token, and the
    time from the last token to the end. None for an answer of one token.
    """
    return (latency_s - ttft_s) / (output_tokens - 1) if output_tokens > 1 else None


def latency_s(sent_s: float, ended_s: float) -> float:
    """Return the latency of a request: from sending it to the arrival of the last event of its answer."""
    return ended_s - sent_s


def job_latency_s(requests: Sequence[Interval]) -> float:
    """Return the latency of a job: from its first request to its last answer, tool calls and waits between included."""
    return max(request.end_s for request in requests) - min(request.start_s for request in requests)


def steady_window(sessions: Sequence[Interval], concurrency: int) -> Interval | None:
    """Return the steady-state window of a closed loop: from a generation after it was first full to the last admission.

    `sessions` are those let in, from their admission to their end, failed ones too. The loop is full at the admission
    after which `concurrency` of them are in flight; those found an emptier server and are done sooner, so the window opens
    as many admissions later. From its end on the load only falls. None where there are too few sessions, below three a
    slot without a ramp, or the window is empty.
    """
    admissions_s = sorted(session.start_s for session in sessions)
    full = filling_admissions(sessions, concurrency)
    if full is None or len(admissions_s) < full + 2 * concurrency:
        return None
    window = Interval(admissions_s[full + concurrency - 1], admissions_s[-1])
    return window if window.length_s > 0 else None


def filling_admissions(sessions: Sequence[Interval], concurrency: int) -> int | None:
    """Return after how many admissions so many sessions are in flight for the first time; None if they never are."""
    ends_s = sorted(session.end_s for session in sessions)
    ended = 0
    for count, start_s in enumerate(sorted(session.start_s for session in sessions), 1):
        while ends_s[ended] <= start_s and ended < count - 1:
            ended += 1
        if count - ended >= concurrency:
            return count
    return None


def settling_s(latencies_s: Sequence[float]) -> float:
    """Return how long after the first arrival as many sessions are there as there will be, to within 1 %.

    Of sessions that arrive at a steady rate, mean of min(latency, t) / mean latency are there after t, where the server
    keeps up: M/G/infinity, Takacs (1962). This is the least t for which that is 0.99.
    """
    ordered = np.sort(np.asarray(latencies_s, dtype=np.float64))
    longer = np.arange(len(ordered), 0, -1)
    there = np.concatenate([[0.0], np.cumsum(ordered)[:-1]]) + ordered * longer
    wanted = _SETTLED_SHARE * float(ordered.sum())
    nth = int(np.searchsorted(there, wanted))
    return float(ordered[nth] - (there[nth] - wanted) / longer[nth])


def mean_in_flight(sessions: Iterable[Interval], window: Interval) -> float:
    """Return how many sessions are in flight in the window on average: their seconds in it / its length."""
    return sum(overlap_s(one, window) for one in sessions) / window.length_s


def arrivals_in_window(admissions_s: Iterable[float], window: Interval) -> int:
    """Return how many sessions are let in after the window opens and up to its end.

    The one with which it opens does not count, so that arrivals at a steady rate give just that rate.
    """
    return sum(window.start_s < at_s <= window.end_s for at_s in admissions_s)


def overlap_s(one: Interval, other: Interval) -> float:
    """Return how long two stretches of time have in common."""
    return max(0.0, min(one.end_s, other.end_s) - max(one.start_s, other.start_s))


def share_in_window(job: Interval, window: Interval) -> float:
    """Return the share of a job's latency that lies in the window, 0 to 1; what the job counts there.

    A perfect closed loop then gives its exact rate at any length of the window.
    """
    if job.length_s <= 0:
        return 1.0 if window.start_s <= job.start_s <= window.end_s else 0.0
    return overlap_s(job, window) / job.length_s


def ends_in_window(one: Interval, window: Interval) -> float:
    """Return 1 of a job that ends in the window, whenever it began, and 0 of another; what it counts where jobs pile up.

    Jobs that wait have a share of their latency in the window long before anything is done for them.
    """
    return float(window.start_s <= one.end_s <= window.end_s)


Credit: TypeAlias = Callable[[Interval, Interval], float]
"""What a job or a request counts in a window: `share_in_window` or `ends_in_window`."""


def jobs_in_window(jobs: Iterable[Interval], window: Interval, credit: Credit = share_in_window) -> float:
    """Return how many jobs the window holds, each with its share, or what else it is to count."""
    return sum(credit(job, window) for job in jobs)


def whole_jobs_in_window(jobs: Iterable[Interval], window: Interval) -> int:
    """Return how many jobs end in the window, whenever they began: the field's rule (TensorRT-LLM's trace replay)."""
    return round(sum(ends_in_window(job, window) for job in jobs))


def mean_job_latency_in_window_s(jobs: Sequence[Interval], window: Interval) -> float | None:
    """Return the mean job latency over the window, each job weighted by its share in it; None without a job there.

    Weighted so, concurrency = rate x latency (Little's law) holds exactly where every slot is always taken.
    """
    shares = [share_in_window(job, window) for job in jobs]
    if not sum(shares):
        return None
    return sum(share * job.length_s for share, job in zip(shares, jobs, strict=True)) / sum(shares)


def mean_latency_of_begun_s(jobs: Iterable[Interval], window: Interval) -> float | None:
    """Return the mean latency of the jobs that begin in the window, however long they take; None without one.

    In a steady state it is the mean job latency in the window. It is more where jobs of which a few are long began
    together shortly before: the short ones are over and over again by the time at which a long one ends, so that of the
    window's time too much is of short jobs.
    """
    latencies_s = [job.length_s for job in jobs if window.start_s <= job.start_s <= window.end_s]
    return sum(latencies_s) / len(latencies_s) if latencies_s else None


def jobs_per_h_per_user(mean_job_latency_s: float) -> float:
    """Return 3600 / mean job latency: the jobs that one user gets done in an hour, one after the other."""
    return SECONDS_PER_HOUR / mean_job_latency_s


def jobs_per_h_per_gpu(jobs: float, window: Interval, gpus: int) -> float:
    """Return 3600 x jobs / (window x GPUs)."""
    return SECONDS_PER_HOUR * jobs / (window.length_s * gpus)


def tokens_per_s_per_user(tpots_s: Sequence[float]) -> float | None:
    """Return 1 / median TPOT: the output tokens that a user sees in a second once an answer has begun.

    Source: TensorRT-LLM's trace replay, over the requests that lie in the window as a whole. None without a TPOT above 0.
    """
    median_s = float(np.median(tpots_s)) if tpots_s else 0.0
    return 1 / median_s if median_s > 0 else None


def tokens_per_s_per_gpu(tokens: float, window: Interval, gpus: int) -> float:
    """Return tokens / (window x GPUs)."""
    return tokens / (window.length_s * gpus)


def requests_per_s_per_gpu(requests: float, window: Interval, gpus: int) -> float:
    """Return requests / (window x GPUs); of those within the limits it is the goodput.

    Source: DistServe (2024), vLLM's benchmark.
    """
    return requests / (window.length_s * gpus)


def interactivity_per_s(requests: Sequence[tuple[int, float]]) -> Interactivity | None:
    """Return the E2E-normalised interactivity: 1 / percentile of latency / OSL over requests of (OSL, latency).

    Source: InferenceX's AgentX. The 90th percentile of what a token costs is the slow side: 90 % of requests reach its
    inverse. Waiting for the first token counts, unlike in tokens a second a user. None without requests, or without time.
    """
    costs_s = [latency_s / output_tokens for output_tokens, latency_s in requests]
    if not costs_s or min(costs_s) <= 0:
        return None
    p50, p90, p99 = (1 / float(cost_s) for cost_s in np.percentile(costs_s, (50, 90, 99)))
    return Interactivity(p50, p90, p99)


def hit_rate(hit_tokens: int, prompt_tokens: int) -> float | None:
    """Return the share of prompt tokens found in the cache, pooled: sum of hits / sum of prompts; None without prompts."""
    return hit_tokens / prompt_tokens if prompt_tokens else None


def cpu_share(used_s: float, measured_s: float) -> float:
    """Return processor time of the client's process / time: 1 is one core, all that one event loop can use."""
    return used_s / measured_s


def level(values: Sequence[tuple[float, float]]) -> Level | None:
    """Return mean, median and maximum of a gauge from its values, each with the seconds for which it stands.

    The mean is the sum of value x seconds / the sum of seconds; half of the time the gauge was at most its median.
    None where no time is covered.
    """
    lasting = sorted((value, seconds) for value, seconds in values if seconds > 0)
    if not lasting:
        return None
    of_values, seconds = np.array(lasting).T
    passed_s = np.cumsum(seconds)
    middle = int(np.searchsorted(passed_s, passed_s[-1] / 2))
    return Level(float(of_values @ seconds / passed_s[-1]), float(of_values[middle]), float(of_values[-1]))


def batch_fill(mean_running: float, max_batch: int) -> float:
    """Return the mean number of requests in the batch / the most that it holds."""
    return mean_running / max_batch


def queue_share(mean_queue_s: float, mean_prefill_s: float) -> float | None:
    """Return mean queue time / (mean queue time + mean prefill time) of a request; None where neither takes time."""
    return mean_queue_s / (mean_queue_s + mean_prefill_s) if mean_queue_s + mean_prefill_s > 0 else None


def energy_j_per(energy_j: float | None, count: float) -> float | None:
    """Return the energy / jobs or output tokens, in J; None where either is not known."""
    return energy_j / count if energy_j is not None and count else None


def distribution(values: Sequence[float]) -> Distribution | None:
    """Return mean, maximum and percentiles, with linear interpolation between the closest ranks; None without values."""
    if not values:
        return None
    p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
    return Distribution(len(values), float(np.mean(values)), p50, p90, p99, max(values))
