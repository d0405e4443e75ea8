"""What scripted models say to coding agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from clients.scripted_server import Script

from rotoscope.replayer.simulator.model import Answer, ModelRequest


@dataclass(frozen=True)
class InTurn:
    """Says one answer after another in each conversation, and the last one from then on."""

    answers: Sequence[Answer]

    def __call__(self, request: ModelRequest) -> Answer:
        """Return the answer behind those that the conversation holds."""
        said = sum(message.role == "assistant" for message in request.messages)
        return self.answers[min(said, len(self.answers) - 1)]


@dataclass(frozen=True)
class Numbered:
    """Thinks one word longer in each answer, so that the lengths of calls tell them apart, and nothing else does."""

    script: Script
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(self, request: ModelRequest) -> Answer:
        """Return what the script says, behind thinking."""
        return replace(self.script(request), reasoning="so " * next(self._numbers))


def offered(request: ModelRequest) -> set[str]:
    """Return the names of the tools that a request offers."""
    return {str(tool["function"].get("name")) for tool in request.tools}


def last_text(request: ModelRequest) -> str:
    """Return what the last message says."""
    return request.messages[-1].content
