"""Token counts as servers report them, brought to one meaning: prompt with cached, completion with reasoning."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rotoscope.traces.model import MAX_COUNT


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server says it counted; None where it says nothing, 0 where it says zero."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    media_tokens: int | None = None
    """How many tokens of the prompt are images, audio or video."""

    def or_else(self, before: Usage | None) -> Usage:
        """Return these counts, and those that were told before where these say nothing."""
        if before is None:
            return self
        pairs = ((getattr(self, x.name), getattr(before, x.name)) for x in fields(self))
        return Usage(*(old if new is None else new for new, old in pairs))


def chat_usage(raw: dict[str, Any]) -> Usage:
    """Read the usage of a chat completion; DeepSeek's `prompt_cache_hit_tokens` is read for cached tokens."""
    prompt_details, completion_details = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
    completion = _count(raw.get("completion_tokens"))
    reasoning = _detail(completion_details, "reasoning_tokens")
    if reasoning is None:
        reasoning = _count(raw.get("reasoning_tokens"))
    cached = _detail(prompt_details, "cached_tokens")
    if cached is None:
        cached = _count(raw.get("prompt_cache_hit_tokens"))
    if reasoning is not None and completion is not None:
        reasoning = min(reasoning, completion)
    return Usage(_count(raw.get("prompt_tokens")) or None, completion, cached, reasoning)


def _detail(details: Any, name: str) -> int | None:
    return _count(details.get(name)) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MAX_COUNT else None
