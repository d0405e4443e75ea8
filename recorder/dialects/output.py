"""One output as it arrives, whatever its dialect; its text lives until the call is closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.recorder.canonical import Part, answer_part
from rotoscope.traces.model import FinishReason


@dataclass(slots=True)
class Output:
    """Text, thinking and tool calls of one output."""

    content: list[str] = field(default_factory=list, repr=False)
    reasoning: list[str] = field(default_factory=list, repr=False)
    calls: list[list[str]] = field(default_factory=list, repr=False)
    """[id, name, arguments] each."""
    finish_reason: FinishReason = "unknown"
    chunks: int = 0
    first_at_s: float | None = None
    echoed: str = field(default="", repr=False)
    """The prompt, where the answer was asked to begin with it."""

    def say(self, at_s: float, *, content: str = "", reasoning: str = "") -> None:
        """Take in a piece of text or of thinking."""
        if content:
            self.content.append(content)
        if reasoning:
            self.reasoning.append(reasoning)
        self.spoke(at_s)

    def begin_call(self, call_id: str, name: str, arguments: str = "") -> int:
        """Begin a tool call and return its index in `calls`."""
        self.calls.append([call_id, name, arguments])
        return len(self.calls) - 1

    def spoke(self, at_s: float) -> None:
        """Count a piece of output."""
        self.chunks += 1
        if self.first_at_s is None:
            self.first_at_s = at_s

    def sent_back(self) -> Part:
        """Return the output as the part it is when it is sent back whole."""
        calls = [(call_id, name, arguments) for call_id, name, arguments in self.calls]
        return answer_part("".join(self.content), calls, "".join(self.reasoning))

    def sent_back_as_ids(self) -> Part:
        """Return the output as the part it is behind a prompt of token ids."""
        return self.sent_back()

    def alike_bytes(self) -> int:
        """Return how many bytes of the thinking and of what follows it are alike at their start."""
        if not self.reasoning:
            return 0
        behind = "".join(self.content) or "".join("".join(call[1:]) for call in self.calls)
        thinking, behind = (" ".join(text.split()) for text in ("".join(self.reasoning), behind))
        alike = next((i for i, (a, b) in enumerate(zip(thinking, behind, strict=False)) if a != b), len(thinking))
        return len(behind[:alike].encode())

    @property
    def token_ids(self) -> Sequence[int]:
        """Return the ids of its tokens; none where the server does not tell them."""
        return ()

    @property
    def tool_names(self) -> list[str]:
        return [name for _, name, _ in self.calls]

    @property
    def tool_ids(self) -> list[str]:
        return [call_id for call_id, _, _ in self.calls if call_id]
