"""Block ids for the prompts of a prefix forest: how formats that know prompts as lists of block ids are written (R6).

Block i of two prompts has one id exactly when they share their first (i + 1) b tokens. A partial last block, where the
format has them, has the id of another one exactly when both prompts are equal. Ids count up by first appearance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.forest import Node, normalise
from rotoscope.traces.model import Call, SharedPrefix, Trace

BlockIds = tuple[int, ...]


def block_ids(members: Sequence[Member], block_size: int, *, with_partial: bool) -> list[list[BlockIds]]:
    """Return the ids of each member's calls, by call number; one scope for all, shared prefixes by campaign and domain.

    `with_partial` gives the last block of a prompt an id where it is not full: ceil(P / b) ids, else floor(P / b).
    """
    forest = _Forest(block_size, with_partial)
    members = [Member(name=m.name, trace=normalise(m.trace), start_ms=m.start_ms, ranks=m.ranks) for m in members]
    scopes = [_Scope(m.trace.campaign, {shared.id: shared for shared in m.trace.shared_prefixes}) for m in members]
    ids: list[dict[int, BlockIds]] = [{} for _ in members]
    for index, call in calls_in_order(members):
        ids[index][call.call] = forest.add(call, scopes[index])
    return [[found[number] for number in sorted(found)] for found in ids]


def reaching_into_outputs(trace: Trace) -> int:
    """Count the calls that begin with more of an earlier stream than its prompt."""
    prompts = {call.call: call.prompt_tokens for call in trace.calls()}
    prefixes = [call.prefix for call in trace.calls()]
    return sum(isinstance(prefix.of, int) and prefix.tokens > prompts[prefix.of] for prefix in prefixes)


@dataclass(eq=False, slots=True)
class _Stream:
    """A stream: its first whole blocks are those of `of`, the ids of the others are given when they are first needed."""

    of: _Stream | None
    shared_blocks: int
    own: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Scope:
    """What the references of a trace mean."""

    campaign: str
    shared: dict[str, SharedPrefix]
    calls: dict[int, _Stream] = field(default_factory=dict)


@dataclass(slots=True)
class _Forest:
    block_size: int
    with_partial: bool
    numbers: count[int] = field(default_factory=count)
    shared: dict[tuple[str, int, str], _Stream] = field(default_factory=dict)
    partial: dict[tuple[_Stream, int], int] = field(default_factory=dict)
    """Ids of partial blocks by the stream that has their last token first, and the length of the prompt."""

    def add(self, call: Call, scope: _Scope) -> BlockIds:
        prefix = call.prefix
        of = self._stream(prefix.of, call.domain, scope)
        stream = scope.calls[call.call] = _Stream(of, prefix.tokens // self.block_size)
        ids = self._first(stream, call.prompt_tokens // self.block_size)
        if self.with_partial and call.prompt_tokens % self.block_size:
            owner = of if of is not None and prefix.tokens == call.prompt_tokens else stream
            key = (owner, call.prompt_tokens)
            if key not in self.partial:
                self.partial[key] = next(self.numbers)
            ids.append(self.partial[key])
        return tuple(ids)

    def _stream(self, of: Node | None, domain: int, scope: _Scope) -> _Stream | None:
        if not isinstance(of, str):
            return None if of is None else scope.calls[of]
        way = [of]
        while (link := scope.shared[way[-1]].prefix) and (scope.campaign, domain, link.of) not in self.shared:
            way.append(link.of)
        for shared in reversed(way):
            key, link = (scope.campaign, domain, shared), scope.shared[shared].prefix
            if key not in self.shared:
                parent = self.shared[scope.campaign, domain, link.of] if link else None
                self.shared[key] = _Stream(parent, link.tokens // self.block_size if link else 0)
        return self.shared[scope.campaign, domain, of]

    def _first(self, stream: _Stream | None, blocks: int) -> list[int]:
        """Return the ids of the first blocks of a stream, after giving those that are new their numbers in order."""
        line: list[tuple[_Stream, int]] = []
        while stream is not None:
            line.append((stream, blocks))
            blocks, stream = min(blocks, stream.shared_blocks), stream.of
        ids: list[int] = []
        for stream, blocks in reversed(line):
            own = max(blocks - stream.shared_blocks, 0)
            stream.own += [next(self.numbers) for _ in range(own - len(stream.own))]
            ids += stream.own[:own]
        return ids
