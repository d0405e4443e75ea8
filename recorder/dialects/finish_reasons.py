"""Why outputs end, as servers of OpenAI's interfaces name it."""

from __future__ import annotations

from typing import Any

from rotoscope.traces.model import FinishReason

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
}


def finish_reason(said: Any, before: FinishReason) -> FinishReason:
    """Return the reason that was said, or the one before where nothing was."""
    return _FINISH_REASONS.get(str(said), "unknown") if said else before
