"""The events of Anthropic's `/v1/messages`: deltas of content blocks between a message's start and its end.

The prompt is counted when the message starts, in three parts that do not overlap; servers that know it only at the end
say 0 there and tell it with the output, whose count is the total so far and not what is new. A part that the end does
not tell, or as null, is what the start told.
"""

from __future__ import annotations

import re

from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import FLAT_OBJECT, Event, Read, Skim, Told, Usage, count, part, pieces, word

_DELTA = "content_block_delta"
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_PARTS = ("input_tokens", _READ, _WRITTEN)


def reading_messages(engine: Engine) -> Read:
    """Return how the events of one answer are read, which is the same for all engines."""
    return _Reader().read


class _Reader:
    """Keeps the parts of the prompt's count from the start of a message to its end."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}

    def read(self, event: Event) -> Told:
        match event.get("type"):
            case "content_block_delta":
                return _read_delta(part(event, "delta"))
            case "message_start":
                return Told(usage=self._prompt_usage(part(part(event, "message"), "usage")))
            case "message_delta":
                return self._read_end(event)
            case "message_stop":
                return Told(is_last=True)
        return Told()

    def _read_end(self, event: Event) -> Told:
        usage = part(event, "usage")
        prompt = self._prompt_usage(usage)
        return Told(
            usage=Usage(prompt.prompt_tokens, count(usage.get("output_tokens")), prompt.cached_tokens),
            finish_reason=word(part(event, "delta").get("stop_reason")),
        )

    def _prompt_usage(self, usage: Event) -> Usage:
        """Add the parts of the prompt up; a prompt of no tokens is one that is not yet counted.

        Dynamo (1.6.1) leaves out what was read from the cache where that is nothing, and tells what was written to it.
        """
        told = {name: tokens for name in _PARTS if (tokens := count(usage.get(name))) is not None}
        if any(told.values()):
            self._parts |= told
        total = sum(self._parts.values())
        cached = self._parts.get(_READ, 0 if _WRITTEN in self._parts else None)
        return Usage(total, None, cached) if total else Usage()


def _read_delta(delta: Event) -> Told:
    text, reasoning = pieces(delta.get("text")), pieces(delta.get("thinking"))
    is_output = bool(text or delta.get("partial_json"))
    return Told(
        tokens=int(is_output or bool(reasoning)), is_output=is_output, text=text, reasoning=reasoning, skim=_SKIM
    )


def _read_deltas(deltas: list[Event]) -> Told:
    return Told(
        text=pieces(*(delta.get("text") for delta in deltas)),
        reasoning=pieces(*(delta.get("thinking") for delta in deltas)),
    )


_OUTPUT = re.compile(rb'"(?:text|partial_json)": ?"(?!")')
_SKIM = Skim(
    f'"type":"{_DELTA}"'.encode(), re.compile(rb'"delta": ?(' + FLAT_OBJECT + rb")"), _read_deltas, output=_OUTPUT
)
