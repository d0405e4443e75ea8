"""What answers and messages consist of where a dialect keeps its pieces in order: text, thinking, calls, media.

An answer and the message by which a client sends it back are brought to the form of chat completions by the same
function here, so that they are the same part. That form has no order between text, thinking and calls; where theirs is
not the usual one, it is kept in a place that only the exact form holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rotoscope.recorder.canonical import Part, message_part
from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.packing import packed


@dataclass(frozen=True, slots=True)
class Text:
    """Text that the model reads as it is."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound, a document, or what else stands for tokens that are not there as text."""

    content: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thinking; where the server does not show it, what it gives in its place."""

    text: str = field(repr=False)
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that the client runs."""

    call_id: str = field(repr=False)
    name: str = field(repr=False)
    arguments: str = field(repr=False)


Piece: TypeAlias = Text | Media | Thinking | ToolUse
_USUAL_ORDER: dict[type, int] = {Thinking: 0, Text: 1, Media: 1, ToolUse: 2}
_LETTERS: dict[type, str] = {Thinking: "r", Text: "t", Media: "m", ToolUse: "c"}


def written_out(value: Any) -> str:
    """Return a value as JSON with sorted keys; text stays as it is, and nothing is empty."""
    if isinstance(value, str):
        return value
    return "" if value is None else packed(value).decode()


def content_of(pieces: Sequence[Piece]) -> str | list[Any]:
    """Return the text and media among some pieces as the content of a message."""
    said = [piece for piece in pieces if isinstance(piece, Text | Media)]
    if not said:
        return ""
    if len(said) == 1 and isinstance(said[0], Text):
        return said[0].text
    return [piece.text if isinstance(piece, Text) else piece.content for piece in said]


def assistant_message(pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return an answer as the message by which it is sent back."""
    pieces = [piece for piece in pieces if not isinstance(piece, Text | Thinking) or piece.text]
    message: dict[str, Any] = {"role": "assistant", "content": content_of(pieces)}
    calls = [piece for piece in pieces if isinstance(piece, ToolUse)]
    if calls:
        message["tool_calls"] = [
            {"id": call.call_id, "function": {"name": call.name, "arguments": call.arguments}} for call in calls
        ]
    if thinking := "\n".join(piece.text for piece in pieces if isinstance(piece, Thinking)):
        message["reasoning_content"] = thinking
    places = [_USUAL_ORDER[type(piece)] for piece in pieces]
    if places != sorted(places):
        message["name"] = "".join(_LETTERS[type(piece)] for piece in pieces)
    return message


@dataclass(slots=True)
class PiecedOutput(Output):
    """An output whose pieces stand in the order in which the model gave them."""

    def pieces(self) -> list[Piece]:
        """Return what was delivered so far."""
        raise NotImplementedError

    def sent_back(self) -> Part:
        return message_part(assistant_message(self.pieces()))

    def alike_bytes(self) -> int:
        """Return how much thinking and what follows it are alike at most: thinking that is hidden may begin like it."""
        pieces = self.pieces()
        plain = Output(
            content=[piece.text for piece in pieces if isinstance(piece, Text)],
            reasoning=[piece.text for piece in pieces if isinstance(piece, Thinking)],
            calls=[[x.call_id, x.name, x.arguments] for x in pieces if isinstance(x, ToolUse)],
        )
        if any(isinstance(piece, Thinking) and piece.is_hidden for piece in pieces):
            return len(message_part(assistant_message(pieces)).loose)
        return plain.alike_bytes()

    @property
    def tool_names(self) -> list[str]:
        return [piece.name for piece in self.pieces() if isinstance(piece, ToolUse)]

    @property
    def tool_ids(self) -> list[str]:
        return [piece.call_id for piece in self.pieces() if isinstance(piece, ToolUse) and piece.call_id]
