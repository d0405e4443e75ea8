"""Goodput: the answers that came within the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.bootstrap import Bounds, share_interval
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.metrics import Credit, Interval
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.token_rates import request_time, tpot_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Requests that were answered within the limits."""

    good: int
    """Of the whole run."""
    ended: int
    """Answered and failed ones; cancelled ones are neither good nor bad."""
    share: float
    """Good / ended."""
    share_interval: Bounds | None
    requests_per_s_per_gpu: float | None
    """Good ones over the window, counted as jobs are; None without a window."""


def goodput_of(
    setup: Setup,
    requests: Sequence[RequestResult],
    window: Interval | None,
    *,
    credit: Credit = metrics.share_in_window,
) -> Goodput | None:
    """Return the goodput of a run; None where no limits were given or no request has ended."""
    ended = [one for one in requests if one.status != "cancelled"]
    if setup.limits is None or not ended:
        return None
    good = [one for one in ended if is_good(one, setup.limits)]
    in_window = sum(credit(time, window) for one in good if window and (time := request_time(one)))
    good_by_session, ended_by_session = (Counter(one.session for one in some) for some in (good, ended))
    return Goodput(
        good=len(good),
        ended=len(ended),
        share=len(good) / len(ended),
        share_interval=share_interval(
            [good_by_session[session] for session in ended_by_session], [*ended_by_session.values()], seed=setup.seed
        ),
        requests_per_s_per_gpu=metrics.requests_per_s_per_gpu(in_window, window, setup.gpus) if window else None,
    )


def is_good(request: RequestResult, limits: Limits) -> bool:
    """Return whether a request was answered within each limit.

    An answer of one token, or of one event, has nothing between its tokens, and no limit of that is broken.
    """
    measured = (
        (request.ttft_s, limits.ttft_s),
        (request.itl_s, limits.itl_s),
        (tpot_s(request), limits.tpot_s),
        (request.latency_s, limits.latency_s),
    )
    return request.status == "ok" and all(value is None or limit is None or value <= limit for value, limit in measured)
