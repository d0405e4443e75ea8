"""The events of `/v1/chat/completions`: `choices` with what is new in `delta`.

Content can be sent back; reasoning and the arguments of tool calls count as output all the same. Servers write the
reasoning under two names, `reasoning_content` and `reasoning`, and some write both.
"""

from __future__ import annotations

import re
from typing import Any

from rotoscope.replayer.backends.answer_completions import first_choice, usage_of
from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import FLAT_OBJECT, GOES_ON, Event, Read, Skim, Told, part, pieces, word


def reading_chat(engine: Engine) -> Read:
    """Return how the events of one answer are read, which is the same for all engines."""
    return _read


def _read(event: Event) -> Told:
    choice = first_choice(event)
    delta = part(choice, "delta")
    text, reasoning = pieces(delta.get("content")), _reasoning(delta)
    is_output = bool(text or delta.get("tool_calls") or delta.get("refusal"))
    return Told(
        tokens=int(is_output or bool(reasoning)),
        is_output=is_output,
        text=text,
        reasoning=reasoning,
        usage=usage_of(event),
        finish_reason=word(choice.get("finish_reason")),
        skim=_SKIM,
    )


def _read_deltas(deltas: list[Event]) -> Told:
    text = pieces(*(delta.get("content") for delta in deltas))
    if len(text) == len(deltas):
        return Told(text=text)
    return Told(text=text, reasoning=[piece for delta in deltas for piece in _reasoning(delta)])


def _reasoning(delta: Event) -> list[str]:
    value: Any = delta.get("reasoning_content") or delta.get("reasoning")
    return pieces(value)


_OUTPUT = re.compile(rb'"(?:content|refusal)": ?"(?!")|"tool_calls": ?\[(?!\])')
_SKIM = Skim(GOES_ON, re.compile(rb'"delta": ?(' + FLAT_OBJECT + rb")"), _read_deltas, output=_OUTPUT)
