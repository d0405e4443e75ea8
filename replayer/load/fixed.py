"""Requests of one fixed shape that share nothing: the load with which benchmarks of single requests compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import NO_PREFIX, Call, Trace

MOST_TOKENS = 10_000_000
"""Of a prompt or an output: more is a slip, and a prompt of a billion takes all memory."""
_SHAPE = re.compile(r"([1-9][0-9]{0,8}):([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Shape:
    """How long the prompt and the output of each request are, in tokens."""

    isl: int
    osl: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `ISL:OSL`; raise UnusableInput for anything else."""
        found = _SHAPE.fullmatch(text)
        if found is None:
            raise UnusableInput(f"a fixed shape is ISL:OSL, both at least 1, such as 1024:256, not {text!r}")
        shape = cls(int(found[1]), int(found[2]))
        if max(shape.isl, shape.osl) > MOST_TOKENS:
            raise UnusableInput(f"a fixed shape has at most {MOST_TOKENS:,} tokens of each kind, not {text!r}")
        return shape

    def __str__(self) -> str:
        return f"{self.isl}:{self.osl}"

    def trace(self) -> Trace:
        """Return a job of one such request; many sessions of it have nothing in common but its lengths."""
        call = Call(
            call=0,
            conversation_id=0,
            message_index=0,
            prompt_tokens=self.isl,
            completion_tokens=self.osl,
            prefix=NO_PREFIX,
        )
        return Trace(trace_id="0" * 16, campaign="0" * 16, token_source="usage", events=(call,))
