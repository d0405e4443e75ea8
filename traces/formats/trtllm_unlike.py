"""What TensorRT-LLM's replay performs otherwise than a trace of ours says, call by call (R12).

The prompts that it puts together from the written events, on a server that returns as many tokens as were asked for, are
compared with the forest: a call is alike when its prompt is as long and begins like the same earlier stream, as far.
That replay by its description: a list of segments a branch and conversation, a message overwrites the one at its index or
is appended, nothing is cut, a child branch begins with none, an answer is kept without its reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from rotoscope.traces.forest import Forest, normalise
from rotoscope.traces.formats.trtllm_order import Order, Placed, ordered
from rotoscope.traces.formats.trtllm_writer import events_of
from rotoscope.traces.model import Call, DropKvCache, Trace

Segment: TypeAlias = tuple[Any, ...]
"""What a run of tokens is: equal segments have equal tokens."""
Piece: TypeAlias = tuple[Segment, int]
"""A segment and its length."""
Beginning: TypeAlias = tuple[int | None, int]
"""A call, by its place in the file, and how many leading tokens are those of its stream."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """Something that is replayed otherwise there."""

    what: Literal["call", "region", "drop"]
    number: int
    """Of the call or region; of a dropped cache the index of the event."""
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {self.number}: {self.reason}"


def unlike(trace: Trace) -> list[Unlike]:
    """Return all that TensorRT-LLM's replay of the written file does otherwise than the trace says."""
    trace = normalise(trace)
    order = ordered(trace)
    drops = [
        Unlike("drop", index, "only a server of TensorRT-LLM can be told to drop its cache")
        for index, event in enumerate(trace.events)
        if isinstance(event, DropKvCache)
    ]
    return [*_unlike_calls(trace, order), *_unlike_regions(order), *drops]


def _unlike_regions(order: Order) -> Iterator[Unlike]:
    for region in order.merged:
        yield Unlike("region", region, "overlaps another one of its branch, and starts and joins with it there")
    for region in order.unjoined:
        yield Unlike("region", region, "is never joined here, and when its branch is over there")
    for region in order.held_up:
        yield Unlike("region", region, "branches beside it stand still there until it is joined")


def _unlike_calls(trace: Trace, order: Order) -> Iterator[Unlike]:
    calls = [step.event for step in order.steps if isinstance(step, Placed) and isinstance(step.event, Call)]
    here = _beginnings(trace, calls)
    replay = _Replay(list(events_of(trace, order)))
    for call, ours in zip(calls, here, strict=True):
        prompt_tokens, theirs = replay.next_call()
        reasons = list(_reasons(call, prompt_tokens, _named(ours, calls), _named(theirs, calls)))
        if reasons:
            yield Unlike("call", call.call, "; ".join(reasons))


def _named(beginning: Beginning, calls: Sequence[Call]) -> Beginning:
    place, tokens = beginning
    return (None if place is None else calls[place].call), tokens


def _reasons(call: Call, prompt_tokens: int, here: Beginning, there: Beginning) -> Iterator[str]:
    if call.completion_tokens == 0:
        yield "its empty answer has one token there"
    if prompt_tokens != call.prompt_tokens:
        yield f"its prompt has {prompt_tokens} tokens there, {call.prompt_tokens} here"
    if here != there:
        yield f"it begins like {_shown(there)} there, like {_shown(here)} here"


def _shown(beginning: Beginning) -> str:
    of, tokens = beginning
    return "no other" if of is None else f"{tokens} tokens of call {of}"


def _beginnings(trace: Trace, calls: Sequence[Call]) -> list[Beginning]:
    """Return what each call has in common with the calls before it in the file, by the forest.

    In the order of their numbers only calls that begin like a shared prefix themselves need be compared: what any other
    has of it, it has from one of those.
    """
    forest = Forest.of_trace(trace)
    place = {call.call: index for index, call in enumerate(calls)}
    in_order = list(place) == sorted(place)
    found: list[Beginning] = []
    for index, call in enumerate(calls):
        if in_order and isinstance(call.prefix.of, int):
            found.append((place[call.prefix.of], call.prefix.tokens))
            continue
        earlier = [x for x in calls[:index] if x.domain == call.domain]
        if in_order:
            earlier = [x for x in earlier if isinstance(x.prefix.of, str)] if call.prefix.of is not None else []
        common = [(min(forest.common_prefix(call.call, x.call), call.prompt_tokens), -place[x.call]) for x in earlier]
        tokens, back = max(common, default=(0, 0))
        found.append((-back if tokens else None, tokens))
    return found


@dataclass
class _Replay:
    """Goes through the events of a file as that replay does, up to each call."""

    events: list[dict[str, Any]]
    at: int = 0
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

    def next_call(self) -> tuple[int, Beginning]:
        """Go on to the next call; return the length of its prompt and what it begins like."""
        while True:
            event = self.events[self.at]
            self.at += 1
            if event["event_type"] == "parallel_start":
                for child in range(event["num_branches"]):
                    self.open_paths[*event["branch_path"], child] = self.branches
                    self.branches += 1
            elif event["event_type"] == "message" and event["role"] != "assistant":
                _store(self._slots(event), event["message_index"], self._pieces(event))
            elif event["event_type"] == "message":
                return self._call(event)

    def _slots(self, event: dict[str, Any]) -> list[tuple[Piece, ...]]:
        branch = self.open_paths[tuple(event["branch_path"])]
        return self.slots.setdefault((branch, event["conversation_id"]), [])

    def _pieces(self, event: dict[str, Any]) -> tuple[Piece, ...]:
        """Return a message in pieces that are equal or have nothing in common."""
        name = event.get("system_prompt_id")
        if name is None:
            return _there((("message", self.at), event["tokens"]))
        ends = [0, *(end for end in self.cuts[name] if end <= event["tokens"])]
        return _there(*((("system", name, end), end - start) for start, end in pairwise(ends)))

    def _call(self, event: dict[str, Any]) -> tuple[int, Beginning]:
        number, slots = self.calls, self._slots(event)
        self.calls += 1
        prompt = [piece for slot in slots for piece in slot]
        reasoning = event["reasoning_tokens"]
        answer = _there((("answer", number), event["completion_tokens"] - reasoning))
        beginning = self.tree.add(prompt, [*_there((("reasoning", number), reasoning)), *answer], number)
        _store(slots, event["message_index"], answer)
        return sum(tokens for _, tokens in prompt), beginning


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

    def add(self, prompt: Sequence[Piece], output: Sequence[Piece], call: int) -> Beginning:
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
