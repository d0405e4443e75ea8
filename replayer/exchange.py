"""One request and its answer, and the seam behind which a backend talks to a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rotoscope.replayer.failures import Failure


@dataclass(slots=True, kw_only=True)
class Exchange:
    """What was asked and what has come back so far; times are seconds of the run's clock.

    A backend fills it while it runs, so that a call that fails or is cancelled keeps the part that it got.
    """

    prompt: bytes
    """A JSON list of token ids, or, for the APIs that take no ids, of messages with `role` and `content`.

    For a server in this process packed ids."""
    output_tokens: int
    """Tokens to generate, at least 1."""
    on_delivery: Callable[[int], None] | None = None
    """Called with the number of output tokens so far whenever it has grown."""
    awaited_tokens: tuple[int, ...] = ()
    """The numbers, rising, at which that matters: a backend may leave out calls in between."""

    sent_s: float | None = None
    answered_s: float | None = None
    """When the head of the answer arrived."""
    first_token_s: float | None = None
    first_output_s: float | None = None
    """When the first event came with anything that is known to be no reasoning."""
    last_token_s: float | None = None
    ended_s: float | None = None
    first_event_tokens: int = 0
    """Tokens that arrived in the first event that had any."""
    token_events: int = 0
    """Events that brought tokens."""
    output_ids: list[int] = field(default_factory=list)
    """The ids that the server returned so far; empty where it returns none."""
    output_text: list[str] = field(default_factory=list)
    """The text of the answer so far, one piece an event; kept only for prompts made of messages.

    Later prompts may send it back; what else was generated is not in it."""
    reasoning_text: list[str] = field(default_factory=list)
    """The reasoning before it, likewise."""
    prompt_tokens: int | None = None
    """By the server's usage, like the next two."""
    completion_tokens: int | None = None
    cached_tokens: int | None = None

    def note_tokens(self, tokens: int, now: float, *, is_output: bool = False) -> None:
        """Take note of an event that brought so many tokens, some of which are known to be no reasoning or not."""
        if is_output and self.first_output_s is None:
            self.first_output_s = now
        if self.first_token_s is None:
            self.first_token_s = now
            self.first_event_tokens = tokens
        self.last_token_s = now
        self.token_events += 1
        if self.on_delivery is not None:
            self.on_delivery(self.delivered_tokens)

    @property
    def counted_tokens(self) -> int | None:
        """Return the output tokens so far by usage or by ids; None where the server tells neither."""
        return len(self.output_ids) or None if self.completion_tokens is None else self.completion_tokens

    @property
    def delivered_tokens(self) -> int:
        """Count the output tokens so far, one an event where nothing better is known."""
        return self.counted_tokens or self.token_events

    @property
    def whole_output_ids(self) -> list[int] | None:
        """Return the ids if there is one for each token that the server says it generated."""
        return self.output_ids if self.output_ids and len(self.output_ids) == self.counted_tokens else None


class Backend(Protocol):
    """Perform requests against a server."""

    async def perform(self, exchange: Exchange) -> Failure | None:
        """Send the request, read the answer to its end and return why it failed, if it did; raise for nothing else."""
