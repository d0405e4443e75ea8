"""Answers of OpenAI's completions, of text and of chat: choices by index, usage, and `[DONE]` behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.dialects.wire_json import parsed
from rotoscope.recorder.usage import Usage, chat_usage
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

T = TypeVar("T", bound=Output)


def finish_reason(said: Any, before: FinishReason) -> FinishReason:
    """Return the reason that was said, or the one before where nothing was."""
    return _FINISH_REASONS.get(str(said), "unknown") if said else before


@dataclass(slots=True)
class ChoicesAnswer(Generic[T]):
    """An answer as it arrives, in pieces or whole."""

    outputs: list[T]
    usage: Usage | None = None
    is_error: bool = False
    is_done: bool = False
    unread: int = 0
    """Events that were no JSON objects."""
    response_id: str = ""

    def take_event(self, data: bytes, at_s: float) -> bool:
        """Take in an event of a response stream; return whether it is nothing but the usage."""
        if not data:
            return False
        if data == b"[DONE]":
            self.is_done = True
            return False
        event = self._take(data, at_s, is_whole=False)
        if event is None or not isinstance(event.get("usage"), dict):
            return False
        return event.get("choices") == [] and event.get("error") is None

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take in an answer that came in one piece."""
        if self._take(body, at_s, is_whole=True) is not None:
            self.is_done = not self.is_error

    def add(self, output: T, choice: dict[str, Any], at_s: float, *, is_whole: bool) -> None:
        """Take in what a choice says of its output."""
        raise NotImplementedError

    def _take(self, data: bytes, at_s: float, *, is_whole: bool) -> dict[str, Any] | None:
        event = parsed(data)
        if not isinstance(event, dict):
            self.unread += 1
            return None
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            index = choice.get("index", 0) if isinstance(choice, dict) else None
            if isinstance(index, int) and 0 <= index < len(self.outputs):
                output = self.outputs[index]
                self.add(output, choice, at_s, is_whole=is_whole)
                output.finish_reason = finish_reason(choice.get("finish_reason"), output.finish_reason)
        error = event.get("error")
        self.is_error = self.is_error or (bool(error) if is_whole else error is not None)
        if isinstance(usage := event.get("usage"), dict):
            self.usage = chat_usage(usage).or_else(self.usage)
        return event
