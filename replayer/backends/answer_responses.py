"""The events of `/v1/responses`: each has a `type`; the last one holds the whole response with its usage.

OpenAI and vLLM write all documented fields, llama-server (10434) only `type`, `item_id` and `delta` of a delta, and
`response.completed` also for an answer that was cut by its length: whatever is needed here is in both.
"""

from __future__ import annotations

import re

from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import STRING, Event, Read, Skim, Told, Usage, count, part, pieces, word

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_TEXT = "response.output_text.delta"
_REASONING = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta")
_OTHER_TOKENS = ("response.function_call_arguments.delta", "response.refusal.delta")


def reading_responses(engine: Engine) -> Read:
    """Return how the events of one answer are read, which is the same for all engines."""
    return _read


def _read(event: Event) -> Told:
    kind = word(event.get("type")) or ""
    if kind in _LAST:
        return _read_last(part(event, "response"), kind)
    if kind == "error":
        return Told(error=event)
    delta = pieces(event.get("delta"))
    if kind == _TEXT:
        return Told(tokens=len(delta), is_output=bool(delta), text=delta, skim=_SKIM_TEXT)
    if kind in _REASONING:
        return Told(tokens=len(delta), reasoning=delta, skim=_SKIM_REASONING[kind])
    return Told(tokens=len(delta), is_output=bool(delta)) if kind in _OTHER_TOKENS else Told()


def _read_last(response: Event, kind: str) -> Told:
    usage = part(response, "usage")
    return Told(
        usage=Usage(
            count(usage.get("input_tokens")),
            count(usage.get("output_tokens")),
            count(part(usage, "input_tokens_details").get("cached_tokens")),
        ),
        finish_reason=kind.removeprefix("response."),
        is_last=True,
        error=response["error"] if isinstance(response.get("error"), dict) else None,
    )


_DELTA = re.compile(rb'"delta": ?(' + STRING + rb")")


def _mark(kind: str) -> bytes:
    return f'"type":"{kind}"'.encode()


_SKIM_TEXT = Skim(_mark(_TEXT), _DELTA, lambda texts: Told(text=pieces(*texts)))
_OUTPUT = re.compile(b"|".join(re.escape(kind.encode()) for kind in (_TEXT, *_OTHER_TOKENS)))
_SKIM_REASONING = {
    kind: Skim(_mark(kind), _DELTA, lambda texts: Told(reasoning=pieces(*texts)), output=_OUTPUT) for kind in _REASONING
}
