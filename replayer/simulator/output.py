"""From what the model says to the tokens that the engine generates, each with the text it adds and where.

An output is `<|think|>reasoning<|think_end|>`, the text, the tool calls as the chat template renders them, and the
end-of-turn token, which counts as a generated token, as it does in real engines. It is then fitted to the limits of
the request: `max_tokens` cuts, `ignore_eos` and `min_tokens` put random words before the end of the turn, `stop` ends
behind the first match.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rotoscope.replayer.simulator.model import Answer, ModelRequest, random_ids
from rotoscope.replayer.simulator.scheduler import Ending
from rotoscope.replayer.simulator.tokenizer import (
    END,
    THINK,
    THINK_END,
    TOOL_ARGUMENTS,
    TOOL_CALL,
    TOOL_CALL_END,
    TokenIds,
    control_id,
    encode,
    token_bytes,
)

Channel = Literal["control", "reasoning", "text", "tool_name", "tool_start", "tool_arguments"]
"""`tool_start` is the mark behind a tool's name: there the call is known to be one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One generated token and the text it adds to its channel (none for control tokens and cut characters)."""

    token: int
    channel: Channel
    text: str
    tool: int = -1
    """Rank of the tool call it belongs to."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request says about the length of its output, in tokens."""

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """All that will be generated for one prompt."""

    pieces: tuple[Piece, ...]
    finish_reason: str
    reasoning_tokens: int
    """Tokens of the thinking with its two marks: all that history drops."""

    @property
    def ids(self) -> TokenIds:
        """Return the generated tokens."""
        return np.fromiter((piece.token for piece in self.pieces), np.uint32, len(self.pieces))

    @property
    def ending(self) -> Ending:
        """Return how the engine counts the end of it."""
        return "length" if self.finish_reason == "length" else "stop"

    def text(self, *channels: Channel, tool: int | None = None) -> str:
        """Return the text of some channels, of one tool call if it is named."""
        wanted = (p for p in self.pieces if p.channel in channels and (tool is None or p.tool == tool))
        return "".join(piece.text for piece in wanted)

    @property
    def tools(self) -> int:
        """Return how many tool calls were begun and named."""
        return sum(piece.channel == "tool_start" for piece in self.pieces)


def plan_output(answer: Answer, request: ModelRequest, limits: Limits) -> Output:
    """Return what is generated for an answer under the limits of its request."""
    pieces = list(_body(answer))
    needed = limits.max_tokens if limits.ignore_eos else min(limits.min_tokens, limits.max_tokens)
    if len(pieces) < needed:
        pieces += _decoded(random_ids(request, needed)[len(pieces) :], "text")
    pieces.append(_control(END))
    finish_reason = answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")
    if len(pieces) > limits.max_tokens:
        pieces, finish_reason = pieces[: limits.max_tokens], "length"
    stopped = _stopped(pieces, limits.stop)
    if stopped is not None:
        pieces, finish_reason = stopped, "stop"
    return Output(tuple(pieces), finish_reason, _reasoning_tokens(pieces))


def _body(answer: Answer) -> Iterator[Piece]:
    if answer.reasoning:
        yield _control(THINK)
        yield from _decoded(encode(answer.reasoning), "reasoning")
        yield _control(THINK_END)
    yield from _decoded(encode(answer.text) if answer.text else answer.token_ids, "text")
    for rank, call in enumerate(answer.tool_calls):
        yield _control(TOOL_CALL)
        yield from _decoded(encode(call.name), "tool_name", rank)
        yield Piece(control_id(TOOL_ARGUMENTS), "tool_start", "", rank)
        yield from _decoded(encode(call.arguments), "tool_arguments", rank)
        yield _control(TOOL_CALL_END)


def _control(text: str) -> Piece:
    return Piece(control_id(text), "control", "")


def _decoded(ids: Iterable[int], channel: Channel, tool: int = -1) -> list[Piece]:
    """Return the pieces of a run of tokens; a character cut into bytes appears with its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = [Piece(int(token), channel, decoder.decode(token_bytes(int(token))), tool) for token in ids]
    rest = decoder.decode(b"", final=True)
    if rest:
        pieces[-1] = replace(pieces[-1], text=pieces[-1].text + rest)
    return pieces


def _stopped(pieces: Sequence[Piece], stops: Sequence[str]) -> list[Piece] | None:
    """Return the pieces up to the token that completes the first stop string, their text without it; None if none is."""
    text = "".join(piece.text for piece in pieces if piece.channel == "text")
    found = [(at, at + len(stop)) for stop in stops if stop and (at := text.find(stop)) >= 0]
    if not found:
        return None
    kept, end = min(found)
    result: list[Piece] = []
    seen = 0
    for piece in pieces:
        if piece.channel != "text":
            result.append(piece)
            continue
        result.append(replace(piece, text=piece.text[: max(kept - seen, 0)]))
        seen += len(piece.text)
        if seen >= end:
            break
    return result


def _reasoning_tokens(pieces: Sequence[Piece]) -> int:
    """Return how many leading tokens belong to the thinking."""
    if not pieces or pieces[0].token != control_id(THINK):
        return 0
    end = control_id(THINK_END)
    return next((at + 1 for at, piece in enumerate(pieces) if piece.token == end), len(pieces))
