"""What scripted models say to coding agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.replayer.simulator.model import Answer, ModelRequest


@dataclass(frozen=True)
class InTurn:
    """Says one answer after another in each conversation, and the last one from then on."""

    answers: Sequence[Answer]

    def __call__(self, request: ModelRequest) -> Answer:
        """Return the answer behind those that the conversation holds."""
        said = sum(message.role == "assistant" for message in request.messages)
        return self.answers[min(said, len(self.answers) - 1)]
