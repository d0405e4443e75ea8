"""What a dialect makes of an answer, in pieces or whole, and what a dialect is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.dialects.request import Request
from rotoscope.recorder.usage import Usage
from rotoscope.traces.journal import DialectName


class Answer(Protocol):
    """An answer as it arrives. Whatever comes, its methods raise nothing that they can foresee."""

    usage: Usage | None
    is_error: bool
    """Whether the server told of an error, inside a response stream too."""
    is_done: bool
    """Whether the terminal event has come, so that a client that leaves has all of it."""
    unread: int
    """Events that could not be read."""
    response_id: str
    """What a later request may name it by; empty when nothing does."""

    @property
    def outputs(self) -> Sequence[Output]:
        """Return its outputs, in the order of their numbers; none is added while it arrives."""

    def take_event(self, data: bytes, at_s: float) -> bool:
        """Take in the data of an event; return whether it is nothing but the usage that was asked for."""

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take in an answer that came in one piece."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """An interface that the recorder understands."""

    name: DialectName
    matches: Callable[[str], bool]
    """Whether requests to a path, without query and last slash, are calls in it."""
    read: Callable[[str, bytes], Request]
    """Read a request from path and body. Raises NotACall."""
    answer: Callable[[int], Answer]
    """Begin an answer with a number of outputs."""
    has_terminal_event: bool = True
    """Whether a response stream has an event behind which nothing comes that tells of the answer."""
    streams_lists: bool = False
    """Whether a response stream may be one JSON list, whose objects are its events."""
    growing: str = ""
    """The key of the list that grows from call to call; empty when such bodies are always read whole."""
    unmarked: Callable[[bytes], bytes] = lambda body: body
    """Leave out of a body what clients move about from call to call and no model reads."""
    messages: Callable[[list[Any]], list[dict[str, Any]]] = lambda _: []
    """Bring new items of that list to messages."""
