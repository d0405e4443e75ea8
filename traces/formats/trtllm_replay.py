"""The prompts that TensorRT-LLM's replay puts together from the events of a file, beside those of the forest.

That replay by its description: a list of segments a branch and conversation, a message overwrites the one at its index or
is appended, nothing is cut, a child branch begins with none, an answer is kept without its reasoning. The server returns
as many tokens as were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from rotoscope.traces.forest import Forest
from rotoscope.traces.model import Call, Trace

Segment: TypeAlias = tuple[Any, ...]
"""What a run of tokens is: equal segments have equal tokens."""
Piece: TypeAlias = tuple[Segment, int]
"""A segment and its length."""


class Prompt(NamedTuple):
    """How long a prompt is, and what it has in common with the calls before it in the file."""

    prompt_tokens: int
    of: int | None
    """The first call, by its place in the file, that begins like this as far as any."""
    tokens: int
    """How far."""


def replayed_prompts(events: Sequence[dict[str, Any]]) -> list[Prompt]:
    """Return the prompts of all calls of a file, in its order."""
    return list(_Player(events).played())


def recorded_prompts(trace: Trace, calls: Sequence[Call]) -> list[Prompt]:
    """Return the same by the forest of a trace in normal form, whose calls stand in the file in this order.

    In the order of their numbers only calls that begin like a shared prefix themselves need be compared: what any other
    has of it, it has from one of those.
    """
    forest = Forest.of_trace(trace)
    place = {call.call: index for index, call in enumerate(calls)}
    in_order = list(place) == sorted(place)
    found: list[Prompt] = []
    for index, call in enumerate(calls):
        if in_order and isinstance(call.prefix.of, int):
            found.append(Prompt(call.prompt_tokens, place[call.prefix.of], call.prefix.tokens))
            continue
        earlier = [x for x in calls[:index] if x.domain == call.domain]
        if in_order:
            earlier = [x for x in earlier if isinstance(x.prefix.of, str)] if call.prefix.of is not None else []
        common = [(min(forest.common_prefix(call.call, x.call), call.prompt_tokens), -place[x.call]) for x in earlier]
        tokens, back = max(common, default=(0, 0))
        found.append(Prompt(call.prompt_tokens, -back if tokens else None, tokens))
    return found


@dataclass
class _Player:
    """Goes through the events of a file as that replay does."""

    events: Sequence[dict[str, Any]]
    calls: int = 0
    slots: dict[tuple[int, int], list[tuple[Piece, ...]]] = field(default_factory=dict)
    """By branch and conversation."""
    open_paths: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})
    """The branch that each path stands for, numbered as they are opened."""
    branches: int = 1
    tree: _Tree = field(default_factory=lambda: _Tree())

    def __post_init__(self) -> None:
        lengths: dict[str, set[int]] = {}
        for event in self.events:
            if "system_prompt_id" in event:
                lengths.setdefault(event["system_prompt_id"], set()).add(event["tokens"])
        self.cuts = {name: sorted(found) for name, found in lengths.items()}

    def played(self) -> Iterator[Prompt]:
        """Yield the prompt of each call."""
        for place, event in enumerate(self.events):
            match event["event_type"], event.get("role"):
                case "parallel_start", _:
                    for child in range(event["num_branches"]):
                        self.open_paths[*event["branch_path"], child] = self.branches
                        self.branches += 1
                case "message", "assistant":
                    yield self._call(event)
                case "message", _:
                    _store(self._slots(event), event["message_index"], self._pieces(event, place))

    def _slots(self, event: dict[str, Any]) -> list[tuple[Piece, ...]]:
        branch = self.open_paths[tuple(event["branch_path"])]
        return self.slots.setdefault((branch, event["conversation_id"]), [])

    def _pieces(self, event: dict[str, Any], place: int) -> tuple[Piece, ...]:
        """Return a message in pieces that are equal or have nothing in common."""
        name = event.get("system_prompt_id")
        if name is None:
            return _there((("message", place), event["tokens"]))
        ends = [0, *(end for end in self.cuts[name] if end <= event["tokens"])]
        return _there(*((("system", name, end), end - start) for start, end in pairwise(ends)))

    def _call(self, event: dict[str, Any]) -> Prompt:
        number, slots = self.calls, self._slots(event)
        self.calls += 1
        prompt = [piece for slot in slots for piece in slot]
        reasoning = event["reasoning_tokens"]
        answer = _there((("answer", number), event["completion_tokens"] - reasoning))
        of, tokens = self.tree.add(prompt, [*_there((("reasoning", number), reasoning)), *answer], number)
        _store(slots, event["message_index"], answer)
        return Prompt(sum(length for _, length in prompt), of, tokens)


def _store(slots: list[tuple[Piece, ...]], index: int, slot: tuple[Piece, ...]) -> None:
    if index < len(slots):
        slots[index] = slot
    else:
        slots.append(slot)


def _there(*pieces: Piece) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces if piece[1])


@dataclass(slots=True)
class _Tree:
    """The streams so far, piece by piece; a node is a beginning and belongs to the first call that has it."""

    nodes: dict[tuple[int, Segment], int] = field(default_factory=dict)
    owners: list[int] = field(default_factory=lambda: [-1])

    def add(self, prompt: Sequence[Piece], output: Sequence[Piece], call: int) -> tuple[int | None, int]:
        """Add a stream; return what its prompt begins like."""
        node, tokens, owner = 0, 0, None
        for segment, length in prompt:
            known = self.nodes.get((node, segment))
            if known is not None:
                tokens, owner = tokens + length, self.owners[known]
            node = self._node(node, segment, call) if known is None else known
        for segment, _ in output:
            node = self._node(node, segment, call)
        return owner, tokens

    def _node(self, parent: int, segment: Segment, call: int) -> int:
        self.nodes[parent, segment] = len(self.owners)
        self.owners.append(call)
        return self.nodes[parent, segment]
