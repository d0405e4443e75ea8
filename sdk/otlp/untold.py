"""Answers that no span tells, as where outputs are hidden and prompts are not: later prompts tell them.

A prompt that begins with the whole of an earlier one, and goes on with a message of the assistant, says what the earlier
call answered. Without that, what stands there would be taken for new in the later prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

import orjson

from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.content import Message


def with_answers(calls: Sequence[ModelCall]) -> list[ModelCall]:
    """Return calls, which stand in the order of their starts, with the answers that later prompts tell of them."""
    found = list(calls)
    if not any(map(_is_untold, calls)):
        return found
    waiting: dict[bytes, int] = {}
    for place, call in enumerate(calls):
        if not call.has_content:
            continue
        *earlier, whole = _signs(call)
        for sign, behind in zip(earlier, call.said.messages[1:], strict=True):
            if behind.get("role") == "assistant" and sign in waiting:
                before = found[waiting[sign]]
                if before.end_ns is not None and before.end_ns <= call.start_ns:
                    found[waiting.pop(sign)] = replace(before, said=replace(before.said, answers=[behind]))
        if _is_untold(call):
            waiting[whole] = place
    return found


def _is_untold(call: ModelCall) -> bool:
    return call.has_content and not call.said.answers and not call.failed and call.usage.completion_tokens != 0


def _signs(call: ModelCall) -> Iterator[bytes]:
    """Yield what stands for the prompt up to the end of each of its messages."""
    digest = blake2b(call.model.encode(), digest_size=16)
    for message in call.said.messages:
        digest.update(_bytes(message))
        yield digest.digest()


def _bytes(message: Message) -> bytes:
    try:
        return orjson.dumps(message, option=orjson.OPT_SORT_KEYS, default=str)
    except TypeError:  # nested too deep to be written, and then not read either
        return b""
