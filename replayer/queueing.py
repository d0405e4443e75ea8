"""Queue apart from prefill, where the server's metrics tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.replayer import metrics
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.server_metrics.counts import Growth, share

Told: TypeAlias = Literal["queue and prefill", "prefill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueing:
    """How the time before a first token divides, over the whole run."""

    told: Told
    """What the server told; of `prefill` alone the queue is what is left of the TTFT."""
    request_queue_s: float
    """Mean of a request, by the server's clock; so is the next."""
    request_prefill_s: float
    job_queue_s: float | None
    """Mean of a job: its queue and prefill, times the queue's share of a request's; None without a completed job."""
    job_prefill_s: float | None
    """The rest of a job's queue and prefill."""


def queueing_of(
    counted: Growth | None, requests: Sequence[RequestResult], *, job_queue_prefill_s: float | None
) -> Queueing | None:
    """Divide the time before first tokens as the server's counters do; None where they do not tell."""
    if counted is None or counted.restarted:
        return None
    prefill_s = share(counted.prefill_s, counted.prefilled_requests)
    queue_s = share(counted.queue_s, counted.queued_requests)
    told: Told = "queue and prefill"
    if prefill_s is None and counted.prefilled_requests is None and counted.prefill_s:
        told = "prefill"
        queue_s, prefill_s = _rest_of_ttft(counted.prefill_s, requests)
    if queue_s is None or prefill_s is None:
        return None
    queue_share = metrics.queue_share(queue_s, prefill_s)
    job_s = None if queue_share is None or job_queue_prefill_s is None else queue_share * job_queue_prefill_s
    return Queueing(
        told=told,
        request_queue_s=queue_s,
        request_prefill_s=prefill_s,
        job_queue_s=job_s,
        job_prefill_s=None if job_s is None or job_queue_prefill_s is None else job_queue_prefill_s - job_s,
    )


def _rest_of_ttft(prefill_s: float, requests: Sequence[RequestResult]) -> tuple[float | None, float | None]:
    """Return mean queue and prefill where only the sum of the prefill is told; None where requests failed.

    It holds requests that failed, too, whose number and time to first token are not known.
    """
    ttfts_s = [one.ttft_s for one in requests if one.status == "ok" and one.ttft_s is not None]
    if not ttfts_s or len(ttfts_s) < len(requests):
        return None, None
    mean_prefill_s = prefill_s / len(ttfts_s)
    return max(sum(ttfts_s) / len(ttfts_s) - mean_prefill_s, 0.0), mean_prefill_s
