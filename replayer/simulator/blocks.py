"""An output as the blocks of which some APIs make an answer: reasoning, text, and each tool call, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.replayer.simulator.output import Output, Piece

Kind: TypeAlias = Literal["reasoning", "text", "tool"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an answer that begins and ends with events of its own."""

    index: int
    """Rank among the blocks of the answer."""
    kind: Kind
    tool: int = -1
    """Rank of the tool call that it is."""


Step: TypeAlias = tuple[Literal["open", "piece", "close"], Block, str]
"""What happens to a block; a piece has its text."""


def blocks_of(output: Output) -> tuple[Block, ...]:
    """Return all blocks of an output in order."""
    keys = dict.fromkeys(key for piece in output.pieces if (key := _key(piece)))
    return tuple(Block(index, kind, tool) for index, (kind, tool) in enumerate(keys))


def steps(output: Output, of: Sequence[Block], first: int, end: int) -> Iterator[Step]:
    """Yield what a run of new tokens does to the output's blocks; after the last token the open one is closed."""
    blocks = {(block.kind, block.tool): block for block in of}
    current = _key_before(output.pieces, first)
    for piece in output.pieces[first:end]:
        key = _key(piece)
        if key and key != current:
            if current:
                yield "close", blocks[current], ""
            yield "open", blocks[key], ""
            current = key
        if key and piece.text:
            yield "piece", blocks[key], piece.text
    if current and end == len(output.pieces):
        yield "close", blocks[current], ""


def block_text(output: Output, block: Block) -> str:
    """Return the whole text of a block, for a tool call its arguments."""
    if block.kind == "tool":
        return output.text("tool_arguments", tool=block.tool)
    return output.text(block.kind)


def _key(piece: Piece) -> tuple[Kind, int] | None:
    """Return which block a token belongs to; a tool call begins where its name is known."""
    if piece.channel == "text" or piece.channel == "reasoning":
        return piece.channel, -1
    return ("tool", piece.tool) if piece.channel in ("tool_start", "tool_arguments") else None


def _key_before(pieces: Sequence[Piece], first: int) -> tuple[Kind, int] | None:
    """Return the block of the last token before one that belongs to any."""
    return next((key for at in range(first - 1, -1, -1) if (key := _key(pieces[at]))), None)
