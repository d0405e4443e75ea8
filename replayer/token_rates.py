"""What tokens were moved in the steady-state window, and how fast for each user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.bootstrap import Bounds, percentile_intervals, ratio_interval
from rotoscope.replayer.metrics import Credit, Interactivity, Interval
from rotoscope.replayer.results import RequestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRates:
    """Token rates over the window; those a GPU count each answered request as jobs are counted."""

    whole_requests: int
    """Answered requests that lie in the window as a whole; the rates of users are theirs."""
    sent_requests: int | None = None
    """Answered requests that were sent in the window, whenever they ended."""
    tokens_per_s_per_user: float | None
    """None without an answer of several tokens that took any time, or where there is no whole request."""
    tokens_per_s_per_user_interval: Bounds | None
    interactivity_per_s: Interactivity | None
    interactivity_p50_interval_per_s: Bounds | None
    interactivity_p90_interval_per_s: Bounds | None
    tokens_per_s_per_gpu: float
    """Prompts and outputs."""
    tokens_per_s_per_gpu_interval: Bounds | None
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_gpu_interval: Bounds | None
    fresh_tokens_per_s_per_gpu: float | None
    """Prompts without their cached tokens, and outputs; None where the server reports no cached tokens."""
    fresh_tokens_per_s_per_gpu_interval: Bounds | None


@dataclass(frozen=True, slots=True)
class Sessions:
    """When each session that was let in was at work, completed or not, and how its intervals are drawn."""

    times: Mapping[int, Interval]
    seed: int
    in_open_loop: bool = False
    """How many come is fixed there, and how long they take is not; in a closed loop it is the other way round."""

    def taken(self, window: Interval) -> dict[int, float]:
        """Return of each session what is fixed of it: itself, or the seconds that it had in the window."""
        if self.in_open_loop:
            return dict.fromkeys(self.times, 1.0)
        return {number: metrics.overlap_s(time, window) for number, time in self.times.items()}


def token_rates_of(
    window: Interval,
    requests: Sequence[RequestResult],
    *,
    gpus: int,
    sessions: Sessions | None = None,
    credit: Credit = metrics.share_in_window,
) -> TokenRates:
    """Return the token rates of the answered ones of these requests; there are no intervals without sessions."""
    timed = [(one, time) for one in requests if one.status == "ok" and (time := request_time(one)) is not None]
    whole = [one for one, time in timed if window.start_s <= time.start_s and time.end_s <= window.end_s]
    shares = [(one, credit(time, window)) for one, time in timed]
    told = any(one.cached_tokens is not None for one, _ in timed)
    tpots_s = [(tpot, one.session) for one in whole if (tpot := tpot_s(one)) is not None]

    def per_gpu(tokens: Callable[[RequestResult], int]) -> tuple[float, Bounds | None]:
        by_session: defaultdict[int, float] = defaultdict(float)
        for one, share in shares:
            by_session[one.session] += share * tokens(one)
        rate = metrics.tokens_per_s_per_gpu(sum(by_session.values()), window, gpus)
        return rate, _rate_interval(by_session, window, gpus=gpus, sessions=sessions) if sessions else None

    total, total_interval = per_gpu(lambda one: isl(one) + osl(one))
    output, output_interval = per_gpu(osl)
    fresh, fresh_interval = per_gpu(_fresh) if told else (None, None)
    (user_interval,) = _inverse_intervals(tpots_s, (50,), sessions)
    reached = _inverse_intervals([(cost, one.session) for one in whole if (cost := _cost_s(one))], (50, 90), sessions)
    return TokenRates(
        whole_requests=len(whole),
        sent_requests=sum(window.start_s <= time.start_s <= window.end_s for _, time in timed),
        tokens_per_s_per_user=metrics.tokens_per_s_per_user([tpot for tpot, _ in tpots_s]),
        tokens_per_s_per_user_interval=user_interval,
        interactivity_per_s=_interactivity(whole),
        interactivity_p50_interval_per_s=reached[0],
        interactivity_p90_interval_per_s=reached[1],
        tokens_per_s_per_gpu=total,
        tokens_per_s_per_gpu_interval=total_interval,
        output_tokens_per_s_per_gpu=output,
        output_tokens_per_s_per_gpu_interval=output_interval,
        fresh_tokens_per_s_per_gpu=fresh,
        fresh_tokens_per_s_per_gpu_interval=fresh_interval,
    )


def isl(request: RequestResult) -> int:
    """Return the tokens of a prompt, planned ones where the server does not tell."""
    return request.planned_prompt_tokens if request.prompt_tokens is None else request.prompt_tokens


def osl(request: RequestResult) -> int:
    """Return the tokens of an answer, those asked for where the server does not tell."""
    return request.asked_tokens if request.completion_tokens is None else request.completion_tokens


def tpot_s(request: RequestResult) -> float | None:
    """Return the time per output token of a request; None where it has no second token."""
    if request.ttft_s is None or request.latency_s is None:
        return None
    return metrics.tpot_s(request.ttft_s, request.latency_s, output_tokens=osl(request))


def request_time(request: RequestResult) -> Interval | None:
    """Return when a request was under way; None where it was not sent or did not end."""
    if request.start_s is None or request.latency_s is None:
        return None
    return Interval(request.start_s, request.start_s + request.latency_s)


def _rate_interval(tokens: Mapping[int, float], window: Interval, *, gpus: int, sessions: Sessions) -> Bounds | None:
    """Return the interval of a rate, from the tokens a session or a second of them, of which there is what there was."""
    taken = sessions.taken(window)
    per_taken = ratio_interval([tokens.get(one, 0.0) for one in taken], [*taken.values()], seed=sessions.seed)
    return per_taken and per_taken.times(metrics.tokens_per_s_per_gpu(sum(taken.values()), window, gpus))


def _inverse_intervals(
    costs_s: Sequence[tuple[float, int]], percents: Sequence[float], sessions: Sessions | None
) -> Sequence[Bounds | None]:
    """Return the intervals of 1 / percentile of what a token costs, from costs with the sessions whose they are."""
    costs, owners = [cost for cost, _ in costs_s], [owner for _, owner in costs_s]
    found = percentile_intervals(costs, owners, percents, seed=sessions.seed) if sessions else None
    return [
        Bounds(1 / bounds.high, 1 / bounds.low) if bounds and bounds.low > 0 else None
        for bounds in found or [None] * len(percents)
    ]


def _cost_s(request: RequestResult) -> float | None:
    """Return what a token of an answer costs from end to end."""
    return request.latency_s / osl(request) if request.latency_s is not None and osl(request) else None


def _interactivity(requests: Sequence[RequestResult]) -> Interactivity | None:
    return metrics.interactivity_per_s(
        [(osl(one), one.latency_s) for one in requests if one.latency_s is not None and osl(one)]
    )


def _fresh(request: RequestResult) -> int:
    return isl(request) - (request.cached_tokens or 0) + osl(request)
