"""Gates of lengths: did prompts and answers have as many tokens as were planned?"""

from __future__ import annotations

from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.gates.gate import Gate, at_most, unchecked
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.setup import Setup

LARGEST_SHARE = 0.01
"""Of prompts or answers whose length is another one: times and hit rates of the rest are hardly touched."""
LARGEST_ERROR = 0.01
"""Of the length of a prompt of words, which is exact only where words and template are."""


def output_lengths(evidence: Evidence) -> Gate:
    """Check the share of answers that have another number of tokens than were asked for."""
    answers = [one for one in _answered(evidence) if one.completion_tokens is not None]
    if not answers:
        return unchecked("output-lengths", "no answer tells how many tokens it has")
    other = [one for one in answers if one.completion_tokens != one.asked_tokens]
    shorter = sum((one.completion_tokens or 0) < one.asked_tokens for one in other)
    return at_most(
        "output-lengths",
        len(other) / len(answers),
        LARGEST_SHARE,
        f"{len(other):,} of {len(answers):,} answers have another number of tokens than were asked for, {shorter:,} fewer: "
        "the server does not obey ignore_eos, or max_tokens",
    )


def prompt_lengths(evidence: Evidence) -> Gate:
    """Check the share of prompts of which the server counts another number of tokens than planned."""
    summary = evidence.summary
    prompts = [one for one in _answered(evidence) if one.prompt_tokens is not None]
    if not prompts:
        return unchecked("prompt-lengths", "no answer tells how many tokens its prompt has")
    other = sum(_is_off(one, summary.setup) for one in prompts)
    error = summary.isl_error
    off = f", {error.mean:,.1f} off on average, {error.max:,.0f} at most" if error else ""
    return at_most(
        "prompt-lengths",
        other / len(prompts),
        LARGEST_SHARE,
        f"the server counts another number of tokens than planned in {other:,} of {len(prompts):,} prompts{off}: "
        "it does not take them as they are",
    )


def _answered(evidence: Evidence) -> list[RequestResult]:
    return [one for one in evidence.summary.request_results if one.status == "ok"]


def _is_off(request: RequestResult, setup: Setup) -> bool:
    """Say whether a prompt has another length than planned; of words, one that is far from it.

    None of words is shorter than one word and the server's template.
    """
    planned, counted = request.planned_prompt_tokens, request.prompt_tokens or 0
    if setup.words is None:
        return counted != planned
    expected = max(planned, setup.template.least_prompt if setup.template else 0)
    return abs(counted - expected) > LARGEST_ERROR * expected
