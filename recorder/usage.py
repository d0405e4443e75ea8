"""Token counts as servers report them, brought to one meaning: prompt with cached, completion with reasoning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from rotoscope.traces.model import MAX_COUNT

_MEDIA_COUNTS = ("audio_tokens", "image_tokens", "video_tokens")


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
    prompt, media = _count(raw.get("prompt_tokens")) or None, _media(prompt_details)
    return Usage(prompt, completion, cached, _at_most(reasoning, completion), _at_most(media, prompt))


def responses_usage(raw: dict[str, Any]) -> Usage:
    """Read the usage of a response."""
    completion = _count(raw.get("output_tokens"))
    reasoning = _detail(raw.get("output_tokens_details"), "reasoning_tokens")
    prompt, details = _count(raw.get("input_tokens")) or None, raw.get("input_tokens_details")
    cached, media = _detail(details, "cached_tokens"), _at_most(_media(details), prompt)
    return Usage(prompt, completion, cached, _at_most(reasoning, completion), media)


def messages_usage(raw: dict[str, Any]) -> Usage:
    """Read the usage of Anthropic messages, which tells three parts of the prompt that do not overlap.

    Where only what was written to the cache is told (Dynamo 1.6.1), nothing was read from it.
    """
    parts = [
        _count(raw.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    cached = 0 if parts[1] is None and parts[2] is not None else parts[1]
    details, completion = raw.get("output_tokens_details"), _count(raw.get("output_tokens"))
    reasoning = _detail(details, "reasoning_tokens")
    if reasoning is None:
        reasoning = _detail(details, "thinking_tokens")
    return Usage(_sum(parts) or None, completion, cached, _at_most(reasoning, completion))


def gemini_usage(raw: dict[str, Any]) -> Usage:
    """Read the usage of Gemini, which counts thinking beside what was said, and the prompt by modality."""
    prompt, thoughts = _count(raw.get("promptTokenCount")) or None, _count(raw.get("thoughtsTokenCount"))
    told = [count for count in (_count(raw.get("candidatesTokenCount")), thoughts) if count is not None]
    details = raw.get("promptTokensDetails")
    pairs = [(x.get("modality"), _count(x.get("tokenCount"))) for x in _list(details) if isinstance(x, dict)]
    media = _sum(count for modality, count in pairs if modality != "TEXT") if pairs else None
    cached = _count(raw.get("cachedContentTokenCount"))
    return Usage(prompt, _sum(told) if told else None, cached, thoughts, _at_most(media, prompt))


def _media(details: Any) -> int | None:
    """Return the tokens of images, sounds and video among the details of a prompt, None where none are told."""
    told = [count for name in _MEDIA_COUNTS if (count := _detail(details, name)) is not None]
    return _sum(told) if told else None


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return a sum of what was told, None where it is more than a count may be."""
    return _count(sum(filter(None, counts)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at_most(count: int | None, most: int | None) -> int | None:
    return count if count is None or most is None else min(count, most)


def _detail(details: Any, name: str) -> int | None:
    return _count(details.get(name)) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MAX_COUNT else None
