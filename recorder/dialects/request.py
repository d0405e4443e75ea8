"""What the recorder takes from a request, whatever its dialect; text lives in it until its digests are taken.

A dialect brings messages to the form of chat completions: `role`, `content`, `tool_calls` (with `id`, `function.name`,
`function.arguments`), `tool_call_id`, `reasoning_content`. A message that holds results of tools and more becomes several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rotoscope.recorder.canonical import Part


class NotACall(ValueError):
    """A body that is no request of its dialect; the message holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: system messages, then tools, then the other messages; or plain text, or token ids."""

    messages: Sequence[dict[str, Any]] = field(default=(), repr=False)
    tools: Part | None = field(default=None, repr=False)
    """The tool schemas, and what else a template may read."""
    tools_at: int | None = None
    """How many messages stand before the tools; None where it is the system messages at the start."""
    unseen: str = field(default="", repr=False)
    """The name of what the server has and puts in behind system messages and tools; empty when there is nothing."""
    text: str | None = field(default=None, repr=False)
    ids: Sequence[int] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """A request in parts."""

    body: Mapping[str, Any] = field(repr=False)
    domain: bytes = field(repr=False)
    """What keeps caches apart: model, adapter and salt."""
    prompts: tuple[Prompt, ...]
    choices: int = 1
    """Outputs of each prompt."""
    is_stream: bool = False
    is_without_usage: bool = False
    """A stream whose usage has to be asked for, and was not."""
    has_stream_options: bool = False
    has_drafts: bool = False
    """Whether the server makes more outputs than it gives, and counts them all."""
    is_echoed: bool = False
    """Whether its answer is to begin with its prompt."""
    previous_response: str = field(default="", repr=False)
    """The id of the response that it goes on from, so that it holds new messages only."""
    conversation: str = field(default="", repr=False)
    """The id of a conversation that the server keeps, and that it goes on with."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of its prompts, in ids or characters."""
        return tuple(len((prompt.text or "") if prompt.ids is None else prompt.ids) for prompt in self.prompts)

    @property
    def ids(self) -> tuple[Sequence[int], ...]:
        """Return the token ids of its prompts; none where they are no ids."""
        return tuple(prompt.ids for prompt in self.prompts if prompt.ids is not None)

    @property
    def outputs(self) -> int:
        return len(self.prompts) * self.choices
