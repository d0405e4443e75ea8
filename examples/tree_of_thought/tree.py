"""The tree: trails of thoughts, and the candidates that may lengthen them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, Field

from examples.chat import Answer


@dataclass(frozen=True)
class Shape:
    """How large the tree may become."""

    depth: int = 3
    candidates: int = 3
    """For each trail at each depth."""
    tried: int = 3
    """Programs that are run at each depth, at most."""
    kept: int = 2
    """Trails that go on from each depth."""


@dataclass(frozen=True)
class Trail:
    """Thoughts that lead from the problem towards its answer, and how good the last one is, from 0 to 10."""

    thoughts: tuple[str, ...] = ()
    score: float = 0.0
    solved: bool = False


@dataclass
class Candidate:
    """A thought that may become the next one of a trail."""

    trail: Trail
    rank: int
    """Among the candidates of its trail, from 1."""
    messages: list[ChatCompletionMessageParam]
    """The conversation in which it is written."""
    answer: Answer
    results: list[str] = field(default_factory=list)
    """What its programs printed, if they were run."""
    conclusion: str = ""

    @property
    def thought(self) -> str:
        return "\n".join(filter(None, (self.answer.text.strip(), self.conclusion.strip())))


class Verdict(BaseModel):
    """What the judge says of a candidate."""

    score: float = Field(ge=0, le=10)
    solved: bool = False


def to_be_tried(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    """Return candidates that call the tool, each in another way; the first one of each trail comes first."""
    ways: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.rank):
        if candidate.answer.calls:
            ways.setdefault(" ".join(call.arguments for call in candidate.answer.calls.values()), candidate)
    return list(ways.values())[:most]


def scores(judged: Iterable[Trail]) -> str:
    return " ".join(f"{trail.score:g}" for trail in judged)


def conversation(system: str, problem: str, trail: Trail, request: str) -> list[ChatCompletionMessageParam]:
    """Return a new conversation about the next thought of a trail."""
    path = "\n".join(f"{number}. {thought}" for number, thought in enumerate(trail.thoughts, 1)) or "It is empty."
    content = f"The problem:\n{problem}\n\nThe path so far:\n{path}\n\n{request}"
    return [{"role": "system", "content": system}, {"role": "user", "content": content}]
