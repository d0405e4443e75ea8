"""The events of Anthropic's `/v1/messages`: deltas of content blocks between a message's start and its end.

The prompt is counted when the message starts, in three parts that do not overlap; servers that know it only at the end
say 0 there and tell it with the output, whose count is the total so far and not what is new.
"""

from __future__ import annotations

import re

from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import FLAT_OBJECT, Event, Read, Skim, Told, Usage, count, part, pieces, word

_DELTA = "content_block_delta"


def reading_messages(engine: Engine) -> Read:
    """Return how the events of one answer are read, which is the same for all engines."""
    return _read


def _read(event: Event) -> Told:
    match event.get("type"):
        case "content_block_delta":
            return _read_delta(part(event, "delta"))
        case "message_start":
            return Told(usage=_prompt_usage(part(part(event, "message"), "usage")))
        case "message_delta":
            return _read_end(event)
        case "message_stop":
            return Told(is_last=True)
    return Told()


def _read_delta(delta: Event) -> Told:
    text, reasoning = pieces(delta.get("text")), pieces(delta.get("thinking"))
    return Told(
        tokens=int(bool(text or reasoning or delta.get("partial_json"))), text=text, reasoning=reasoning, skim=_SKIM
    )


def _read_end(event: Event) -> Told:
    usage = part(event, "usage")
    prompt = _prompt_usage(usage)
    return Told(
        usage=Usage(prompt.prompt_tokens, count(usage.get("output_tokens")), prompt.cached_tokens),
        finish_reason=word(part(event, "delta").get("stop_reason")),
    )


def _prompt_usage(usage: Event) -> Usage:
    """Add the parts of the prompt up; a prompt of no tokens is one that is not yet counted.

    Dynamo (1.6.1) leaves out what was read from the cache where that is nothing, and tells what was written to it.
    """
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    total = (count(usage.get("input_tokens")) or 0) + (read or 0) + (written or 0)
    cached = 0 if read is None and written is not None else read
    return Usage(total, None, cached) if total else Usage()


def _read_deltas(deltas: list[Event]) -> Told:
    return Told(
        text=pieces(*(delta.get("text") for delta in deltas)),
        reasoning=pieces(*(delta.get("thinking") for delta in deltas)),
    )


_SKIM = Skim(f'"type":"{_DELTA}"'.encode(), re.compile(rb'"delta": ?(' + FLAT_OBJECT + rb")"), _read_deltas)
