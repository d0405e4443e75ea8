"""What tokens were moved in the steady-state window, and how fast for each user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.metrics import Interactivity, Interval
from rotoscope.replayer.results import RequestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRates:
    """Token rates over the window; those a GPU count each answered request with its share in it."""

    whole_requests: int
    """Answered requests that lie in the window as a whole; the rates of users are theirs."""
    tokens_per_s_per_user: float | None
    """None without an answer of several tokens that took any time, or where there is no whole request."""
    interactivity_per_s: Interactivity | None
    tokens_per_s_per_gpu: float
    """Prompts and outputs."""
    output_tokens_per_s_per_gpu: float
    fresh_tokens_per_s_per_gpu: float | None
    """Prompts without their cached tokens, and outputs; None where the server reports no cached tokens."""


def token_rates_of(window: Interval, requests: Sequence[RequestResult], *, gpus: int) -> TokenRates:
    """Return the token rates of the answered ones of these requests."""
    timed = [(one, time) for one in requests if one.status == "ok" and (time := request_time(one)) is not None]
    whole = [one for one, time in timed if window.start_s <= time.start_s and time.end_s <= window.end_s]
    shares = [(one, metrics.share_in_window(time, window)) for one, time in timed]
    told = any(one.cached_tokens is not None for one, share in shares if share)

    def per_gpu(tokens: Callable[[RequestResult], int]) -> float:
        total = sum(share * tokens(one) for one, share in shares)
        return metrics.tokens_per_s_per_gpu(total, window, gpus)

    return TokenRates(
        whole_requests=len(whole),
        tokens_per_s_per_user=metrics.tokens_per_s_per_user(
            [tpot for one in whole if (tpot := tpot_s(one)) is not None]
        ),
        interactivity_per_s=_interactivity(whole),
        tokens_per_s_per_gpu=per_gpu(lambda one: isl(one) + osl(one)),
        output_tokens_per_s_per_gpu=per_gpu(osl),
        fresh_tokens_per_s_per_gpu=per_gpu(_fresh) if told else None,
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


def _interactivity(requests: Sequence[RequestResult]) -> Interactivity | None:
    return metrics.interactivity_per_s(
        [(osl(one), one.latency_s) for one in requests if one.latency_s is not None and osl(one)]
    )


def _fresh(request: RequestResult) -> int:
    return isl(request) - (request.cached_tokens or 0) + osl(request)
