"""What a recording says at its end: calls, tokens, and how much the server found in its cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rotoscope.traces.model import Call, TokenSource, Trace
from rotoscope.traces.phrases import counted

_ENDINGS = {"cancelled": "cancelled", "error": "failed", "lost": "lost"}


def summary(trace: Trace) -> list[str]:
    """Return the lines that sum up a recorded trace."""
    calls = list(trace.calls())
    prompt_tokens = sum(call.prompt_tokens for call in calls)
    completion_tokens = sum(call.completion_tokens for call in calls)
    tokens = f"{prompt_tokens:,} prompt tokens, {completion_tokens:,} completion tokens"
    lines = [f"{counted(len(calls), 'call')}{_endings(calls)}, {tokens}"]
    for source, number in sorted(Counter(_prompt_source(call, trace) for call in calls).items()):
        if source != "usage":
            lines.append(f"{counted(number, 'call')} came without usage from the server: {_by(source)}")
    if rate := live_hit_rate(calls):
        lines.append(f"live hit rate {rate[0]:.1%}: cached tokens of prompt tokens, as the server told for {rate[1]}")
    return lines


def live_hit_rate(calls: Sequence[Call]) -> tuple[float, str] | None:
    """Return cached / prompt tokens over the calls whose answers told both, pooled, and over how many calls."""
    told = [call for call in calls if call.cached_tokens is not None]
    prompt_tokens = sum(call.prompt_tokens for call in told)
    if not prompt_tokens:
        return None
    return sum(call.cached_tokens or 0 for call in told) / prompt_tokens, counted(len(told), "call")


def _endings(calls: Sequence[Call]) -> str:
    ends = Counter(_ENDINGS[call.finish_reason] for call in calls if call.finish_reason in _ENDINGS)
    return f" ({', '.join(f'{number} {ending}' for ending, number in sorted(ends.items()))})" if ends else ""


def _prompt_source(call: Call, trace: Trace) -> TokenSource:
    return call.prompt_tokens_source or trace.token_source


def _by(source: TokenSource) -> str:
    """Say where tokens come from that no usage told."""
    if source == "estimate":
        return "tokens are estimates there"
    name = source.removeprefix("tokenizer:")
    return f"tokens are those of {'the server itself' if name == 'server' else f'the tokenizer {name}'} there"
