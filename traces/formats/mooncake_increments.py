"""Rows of sessions that say what a turn adds, as AIPerf has them, turned into rows of whole prompts.

AIPerf sends with a later turn all turns and answers before it, so the lengths and block ids of its rows are those of what
is new (`agentic_code_gen/writer.py` of 0.13.0; seen on the wire, too). A file does not say that it means this. It is
taken to where no later turn of any session begins with the first block of the turn before it, though that had a whole
one, or is shorter where there are no ids: whole prompts of a conversation are not like that. A row with `prefix_reset`,
as we write them, or with a `request_id` holds a whole prompt; one with `is_delta` says that it holds what is added.

A whole prompt then has the blocks of the session's first row, as far as they are whole, and from there on ids of its own
session: what later rows have in common with other sessions stands at other places of their prompts, where no cache finds
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from rotoscope.traces.formats.mooncake_rows import SourceRow, packed
from rotoscope.traces.model import MAX_COUNT

MOST_BLOCKS = 1 << 18
"""Of a whole prompt. The file does not list them, so that a single wrong length could ask for any amount of memory."""


@dataclass(slots=True)
class _Stream:
    """A session so far."""

    tokens: int = 0
    """Of all prompts and answers."""
    whole_blocks: list[int] = field(default_factory=list)


def hold_increments(rows: Sequence[SourceRow], sessions: Sequence[int], block_size: int) -> bool:
    """Say whether rows, given with the session of each, are taken for what their turns add."""
    if any(row.is_delta for row in rows):
        return True
    last: dict[int, SourceRow] = {}
    has_evidence = False
    for row, session in zip(rows, sessions, strict=True):
        before = last.get(session)
        last[session] = row
        if before is None:
            continue
        if row.is_whole or (before.block_ids and row.block_ids and before.block_ids[0] == row.block_ids[0]):
            return False
        has_evidence |= _seems_to_add(before, row, block_size)
    return has_evidence


def _seems_to_add(before: SourceRow, row: SourceRow, block_size: int) -> bool:
    """Say whether two turns that begin differently are unlike whole prompts: a block parts, or the later is shorter."""
    if before.block_ids and row.block_ids:
        return before.prompt_tokens >= block_size
    return row.prompt_tokens < before.prompt_tokens


def whole_prompts(rows: Sequence[SourceRow], sessions: Sequence[int], block_size: int) -> list[SourceRow]:
    """Return the rows of the whole prompts; raise TraceError where one is too long to be one."""
    fresh = count(max((block for row in rows for block in row.block_ids), default=-1) + 1)
    streams: dict[int, _Stream] = {}
    return [
        _whole(row, streams.setdefault(session, _Stream()), block_size, fresh)
        for row, session in zip(rows, sessions, strict=True)
    ]


def _whole(row: SourceRow, stream: _Stream, block_size: int, fresh: Iterator[int]) -> SourceRow:
    tokens = stream.tokens + row.prompt_tokens
    if tokens > MAX_COUNT:
        raise row.error("longer than any prompt, with the turns and answers before it", "input_length")
    is_first = not stream.tokens
    whole, rest = divmod(tokens, block_size)
    if whole > MOST_BLOCKS and not (is_first and row.block_ids):
        message = f"a prompt of {tokens} tokens, with the turns and answers before it: expected at most"
        raise row.error(f"{message} {MOST_BLOCKS} blocks of {block_size}", "input_length")
    if is_first:
        stream.whole_blocks += row.block_ids[:whole]
    stream.whole_blocks += (next(fresh) for _ in range(whole - len(stream.whole_blocks)))
    stream.tokens = tokens + row.completion_tokens
    if is_first and row.block_ids:
        return row
    partial = [next(fresh)] if rest else []
    return replace(row, prompt_tokens=tokens, block_ids=packed([*stream.whole_blocks, *partial]))
