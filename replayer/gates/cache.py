"""Gates of the cache: was the server cold and alone, did its cache work, and do its counters say what its answers say?

Where no answer tells its cached tokens, as vLLM's do not unless asked to, the server's counters tell those of all requests
together: what was found too much in one request may then hide behind what another one missed.
"""

from __future__ import annotations

from collections.abc import Iterator

from rotoscope.replayer.gates.evidence import Evidence, unforeseen_tokens
from rotoscope.replayer.gates.findable import findable_requests
from rotoscope.replayer.gates.gate import Gate, at_least, at_most, unchecked
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.server_metrics.counts import found_in_any
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.token_rates import osl

LARGEST_EXCESS = 0.001
"""Of prompt tokens: a few words of a prompt are alike by chance."""
LEAST_FOUND = 0.8
"""Of what must be in a cache of blocks whose size is known: engines that were measured find all of it."""
LEAST_FOUND_ELSEWHERE = 0.05
"""Where the cache may be slots that are cut back, or several behind a router: only one that is off finds so little."""
LARGEST_DISAGREEMENT = 0.01
"""Of prompt tokens, between usage and counters."""

_NOT_TOLD = "the server reports no cached tokens"


def above_optimum(evidence: Evidence) -> Gate:
    """Check the tokens that were found beyond each request's realised optimum, which nothing of this run can explain."""
    cache = evidence.summary.cache
    if cache.cached_tokens is None:
        return _above_by_counters(evidence)
    above = [excess for excess in _excesses(evidence) if excess > 0]
    return at_most(
        "above-optimum",
        sum(above) / max(cache.prompt_tokens, 1),
        LARGEST_EXCESS,
        f"{sum(above):,} prompt tokens of {len(above):,} requests were found in the cache that nothing in this run had "
        "brought there: the server was not cold, serves others, or --profile is wrong",
    )


def below_optimum(evidence: Evidence) -> Gate:
    """Check that what must be in the cache was found, of requests before which little else was in it."""
    summary, server = evidence.summary, evidence.server
    counted = None
    if summary.cache.cached_tokens is None:
        counted = _found_by_counters(summary)
        if counted is None or not _counts_all(summary):
            return unchecked("below-optimum", _NOT_TOLD)
    if server is not None and server.replicas != 1:
        serve = "the server does not tell how many engines" if server.replicas is None else f"{server.replicas} engines"
        return unchecked("below-optimum", f"{serve} serve, and where a request goes decides what it finds")
    size_is_known = server is not None and server.capacity_tokens is not None
    if not size_is_known and summary.setup.concurrency != 1:
        why = "the server does not tell the size of its one cache, so only one session at a time is low load"
        return unchecked("below-optimum", why)
    return _found(findable_requests(evidence), counted=counted, size_is_known=size_is_known)


def counters(evidence: Evidence) -> Gate:
    """Check that the server's counters can be true if its answers are: at least their tokens, and cached ones likewise.

    What counters have beyond them may be others' requests, failed ones, or some that were looked up twice.
    """
    cache, counted = evidence.summary.cache, evidence.summary.counted
    if counted is None or counted.unit != "tokens" or counted.prompt is None or counted.hit_rate is None:
        return unchecked("counters", "the server has no counters of prompt and cached tokens")
    if cache.cached_tokens is None:
        return unchecked("counters", _NOT_TOLD)
    more = counted.prompt - cache.prompt_tokens
    found = counted.hit_rate * counted.prompt
    off = max(-more, cache.cached_tokens - found, found - cache.cached_tokens - max(more, 0.0), 0.0)
    return at_most(
        "counters",
        off / max(cache.prompt_tokens, 1),
        LARGEST_DISAGREEMENT,
        f"the server counts {counted.prompt:,.0f} prompt tokens and {found:,.0f} cached, its answers {cache.prompt_tokens:,} "
        f"and {cache.cached_tokens:,}: several servers answer, or one of the two is wrong",
    )


def _excesses(evidence: Evidence) -> Iterator[int]:
    summary, unforeseen = evidence.summary, _unforeseen_in_blocks(evidence)
    for one, optimum in zip(summary.request_results, summary.optimal_tokens, strict=True):
        if one.status == "ok":
            yield (one.cached_tokens or 0) - optimum - unforeseen


def _unforeseen_in_blocks(evidence: Evidence) -> int:
    setup = evidence.summary.setup
    return -(-unforeseen_tokens(setup) // setup.block_size) * setup.block_size


def _above_by_counters(evidence: Evidence) -> Gate:
    """Check that counters have no more cached tokens than all optima together and what they counted beside our prompts."""
    summary, found = evidence.summary, _found_by_counters(evidence.summary)
    if found is None or summary.counted is None or summary.counted.prompt is None:
        return unchecked("above-optimum", _NOT_TOLD)
    cache = summary.cache
    beside = max(summary.counted.prompt - cache.prompt_tokens, 0.0)
    above = max(found - cache.optimal_tokens - beside - cache.requests * _unforeseen_in_blocks(evidence), 0.0)
    return at_most(
        "above-optimum",
        above / max(cache.prompt_tokens, 1),
        LARGEST_EXCESS,
        f"{above:,.0f} prompt tokens were found in the cache, by the server's counters, that nothing in this run had brought "
        "there: the server was not cold, serves others, or --profile is wrong",
    )


def _found_by_counters(summary: Summary) -> float | None:
    """Return the prompt tokens that the server's counters found in any tier; None where they do not tell."""
    counted = summary.counted
    if counted is None or counted.unit != "tokens":
        return None
    return found_in_any(counted.cached, counted.host_cached, counted.external_cached)


def _counts_all(summary: Summary) -> bool:
    """Whether the counters are of all that was asked; an engine whose cache is off looks nothing up, but counts outputs."""
    counted, answered = summary.counted, [one for one in summary.request_results if one.status == "ok"]
    least = 1 - LARGEST_DISAGREEMENT
    return counted is not None and (
        (counted.prompt or 0.0) >= least * summary.cache.prompt_tokens
        or (counted.output_tokens or 0.0) >= least * sum(map(osl, answered))
    )


def _found(requests: list[tuple[RequestResult, int]], *, counted: float | None, size_is_known: bool) -> Gate:
    """Check what was found of what must be there; `counted` is that of all requests, where answers do not tell."""
    expected = sum(tokens for _, tokens in requests)
    if not expected:
        return unchecked("below-optimum", "no prompt begins like one that must still be in the cache")
    told = sum(min(one.cached_tokens or 0, tokens) for one, tokens in requests)
    found = told if counted is None else min(round(counted), expected)
    return at_least(
        "below-optimum",
        found / expected,
        LEAST_FOUND if size_is_known else LEAST_FOUND_ELSEWHERE,
        f"{found:,} tokens were found in the cache of {expected:,} that must be there, in {len(requests):,} requests at low "
        "load: the cache is off or does not work, or not all of what is found is told",
    )
