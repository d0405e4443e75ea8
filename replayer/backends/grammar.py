"""What the reading of an answer needs to know about an API: how one of its events is read, and how many at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rotoscope.replayer.failures import Failure, FailureKind

Event: TypeAlias = dict[str, Any]
"""The payload of one event as parsed from JSON."""

GOES_ON = b'"finish_reason":null'
"""Stands in the events of most servers until the last that has a token."""
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""Matches a string."""
FLAT_OBJECT = rb'\{(?:"\w++": ?(?:null|\[\]|' + STRING + rb")(?:, ?)?)*+\}"
"""Matches an object of nothing but strings, nulls and empty lists, written with a space behind each mark or without."""


@dataclass(slots=True)
class Usage:
    """Token counts as the server tells them; None where it does not."""

    prompt_tokens: int | None = None
    """Cached ones included."""
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Skim:
    """How events that bring tokens and nothing else of use are read without being parsed, all together."""

    mark: bytes
    """Stands once in each of them and in no other; no text can look like it, because quotes in strings are escaped.

    It is written without spaces; `spaced` is the same as servers write it that put one behind each colon."""
    pattern: re.Pattern[bytes]
    """Matches once in each of them; its group holds what they bring, as JSON that can stand in a list."""
    read: Callable[[list[Any]], Told]
    """Takes the list of all groups."""
    newest_only: bool = False
    """Whether each event repeats what those before it brought."""
    output: re.Pattern[bytes] | None = None
    """Found where one of them brings more than reasoning; None where nobody can tell, or some has come before.

    Until then, events are read as they arrive, so that the time of the first that does is known."""
    spaced: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spaced", self.mark.replace(b'":', b'": '))


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each event that is parsed, which costs half as much
class Told:
    """What one event says, or several that were skimmed."""

    tokens: int = 0
    """How many it brings; 1 for any text without ids."""
    is_output: bool = False
    """Whether some of them are known to be no reasoning."""
    ids: Sequence[Any] = ()
    """Not yet checked."""
    text: Sequence[str] = ()
    """Pieces that a later prompt may send back; empty for APIs whose prompts are ids."""
    reasoning: Sequence[str] = ()
    """Pieces of what was generated and is not sent back."""
    usage: Usage | None = None
    finish_reason: str | None = None
    is_last: bool = False
    error: Event | None = None
    """The object that says what failed, where it is not under the key `error` of the event."""
    skim: Skim | None = None
    """How the events that follow can be skimmed."""


Read: TypeAlias = Callable[[Event], Told]
"""Reads the events of one answer, in their order."""


class AnswerFailed(Exception):
    """Carry a failure, and the server's message to be shown and forgotten, out of the reading of an answer."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(failure.kind.value)
        self.failure = failure
        self.message = message


def malformed(message: str) -> AnswerFailed:
    """Return what to raise for an answer that makes no sense."""
    return AnswerFailed(Failure(FailureKind.MALFORMED, 200), message)


def part(event: Event, key: str) -> Event:
    """Return an object within an event, an empty one where there is none."""
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def count(value: Any) -> int | None:
    """Return a number of tokens, None for what is none."""
    return value if type(value) is int and value >= 0 else None


def word(value: Any) -> str | None:
    """Return a string, None for what is none."""
    return value if isinstance(value, str) else None


def pieces(*values: Any) -> list[str]:
    """Return those values that are texts with something in them."""
    return [value for value in values if value and isinstance(value, str)]
