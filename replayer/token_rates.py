"""What tokens were moved in the steady-state window, and how fast for each user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.bootstrap import Bounds, percentile_intervals, ratio_interval
from rotoscope.replayer.metrics import Interactivity, Interval
from rotoscope.replayer.results import RequestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRates:
    """Token rates over the window; those a GPU count each answered request with its share in it."""

    whole_requests: int
    """Answered requests that lie in the window as a whole; the rates of users are theirs."""
    tokens_per_s_per_user: float | None
    """None without an answer of several tokens that took any time, or where there is no whole request."""
    tokens_per_s_per_user_interval: Bounds | None
    interactivity_per_s: Interactivity | None
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


def token_rates_of(
    window: Interval, requests: Sequence[RequestResult], *, gpus: int, sessions: Sessions | None = None
) -> TokenRates:
    """Return the token rates of the answered ones of these requests; there are no intervals without sessions."""
    timed = [(one, time) for one in requests if one.status == "ok" and (time := request_time(one)) is not None]
    whole = [one for one, time in timed if window.start_s <= time.start_s and time.end_s <= window.end_s]
    shares = [(one, metrics.share_in_window(time, window)) for one, time in timed]
    told = any(one.cached_tokens is not None for one, share in shares if share)
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
    return TokenRates(
        whole_requests=len(whole),
        tokens_per_s_per_user=metrics.tokens_per_s_per_user([tpot for tpot, _ in tpots_s]),
        tokens_per_s_per_user_interval=_user_interval(tpots_s, sessions.seed) if sessions else None,
        interactivity_per_s=_interactivity(whole),
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
    """Return the interval of a rate, from the tokens a second of the sessions, whose seconds stay what they were."""
    taken_s = {number: metrics.overlap_s(time, window) for number, time in sessions.times.items()}
    per_second = ratio_interval([tokens.get(one, 0.0) for one in taken_s], [*taken_s.values()], seed=sessions.seed)
    return per_second and per_second.times(metrics.tokens_per_s_per_gpu(sum(taken_s.values()), window, gpus))


def _user_interval(tpots_s: Sequence[tuple[float, int]], seed: int) -> Bounds | None:
    found = percentile_intervals([tpot for tpot, _ in tpots_s], [owner for _, owner in tpots_s], (50,), seed=seed)
    return Bounds(1 / found[0].high, 1 / found[0].low) if found and found[0].low > 0 else None


def _interactivity(requests: Sequence[RequestResult]) -> Interactivity | None:
    return metrics.interactivity_per_s(
        [(osl(one), one.latency_s) for one in requests if one.latency_s is not None and osl(one)]
    )


def _fresh(request: RequestResult) -> int:
    return isl(request) - (request.cached_tokens or 0) + osl(request)
