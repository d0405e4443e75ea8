"""Give traces new names: every id dense in order of first appearance, in one scope for all traces of a corpus.

What traces of one campaign have in common stays so: shared prefixes, tools and cache domains get the same number wherever
they were the same. Those of different campaigns are never taken for the same, whatever they are called. Calls,
conversations, regions, requests and tool calls belong to one trace and are numbered in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial

from rotoscope.traces.forest import Node
from rotoscope.traces.model import (
    Branch,
    Call,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    ToolCall,
    Trace,
    TraceEvent,
)


class Dense:
    """Numbers from 0 for whatever is asked for, in the order in which it is."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __getitem__(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


@dataclass(slots=True)
class CorpusIds:
    """The new names of a corpus."""

    campaign: str
    """Of all its traces."""
    new_trace_id: Callable[[], str]
    shared: Dense = field(default_factory=Dense)
    """By the campaign and id that were."""
    tools: Dense = field(default_factory=Dense)
    domains: Dense = field(default_factory=Dense)


def rekeyed(trace: Trace, ids: CorpusIds) -> Trace:
    """Return the trace with new names only; everything else is as it was."""
    names = _Names(trace, ids)
    return replace(
        trace,
        trace_id=ids.new_trace_id(),
        campaign=ids.campaign,
        shared_prefixes=tuple(map(names.shared_prefix, trace.shared_prefixes)),
        events=tuple(map(names.event, trace.events)),
    )


class _Names:
    """The new names within one trace."""

    def __init__(self, trace: Trace, ids: CorpusIds) -> None:
        self._campaign = trace.campaign
        self._ids = ids
        self._calls = {call.call: number for number, call in enumerate(trace.calls())}
        """In the order of their numbers, which is that of their requests (R2)."""
        self._parents = {one.region: one.branch for one in trace.events if isinstance(one, ParallelStart)}
        self._conversations, self._regions, self._requests, self._tool_calls = Dense(), Dense(), Dense(), Dense()

    def shared_prefix(self, shared: SharedPrefix) -> SharedPrefix:
        new = replace(shared, id=self._shared_id(shared.id))
        if new.prefix is not None:
            new = replace(new, prefix=replace(new.prefix, of=self._shared_id(new.prefix.of)))
        return new

    def event(self, event: TraceEvent) -> TraceEvent:
        path = self._path(event.branch) if event.branch_path else ()
        event = replace(event, branch=self._branch(event.branch), branch_path=path)
        match event:
            case Call():
                return self._call(event)
            case Message(system_prompt_id=shared):
                new_id = None if shared is None else self._shared_id(shared)
                conversation = self._conversations[event.conversation_id]
                return replace(event, conversation_id=conversation, system_prompt_id=new_id)
            case ToolCall():
                return replace(
                    event,
                    tool_call_id=f"t{self._tool_calls[event.tool_call_id]}",
                    tool_name=self._tool(event.tool_name),
                    call=None if event.call is None else self._calls[event.call],
                )
            case ParallelStart() | ParallelEnd():
                return replace(event, region=self._regions[event.region])
        return event

    def _call(self, call: Call) -> Call:
        return replace(
            call,
            call=self._calls[call.call],
            domain=self._ids.domains[self._campaign, call.domain],
            conversation_id=self._conversations[call.conversation_id],
            prefix=self._prefix(call.prefix),
            masked=None if call.masked is None else self._prefix(call.masked),
            tool_calls=tuple(map(self._tool, call.tool_calls)),
            request=None if call.request is None else self._requests[call.request],
        )

    def _prefix(self, prefix: Prefix) -> Prefix:
        return replace(prefix, of=None if prefix.of is None else self._node(prefix.of))

    def _node(self, node: Node) -> Node:
        return self._shared_id(node) if isinstance(node, str) else self._calls[node]

    def _shared_id(self, shared: str) -> str:
        return f"s{self._ids.shared[self._campaign, shared]}"

    def _tool(self, name: str) -> str:
        return f"tool{self._ids.tools[self._campaign, name]}"

    def _branch(self, branch: Branch | None) -> Branch | None:
        return None if branch is None else (self._regions[branch[0]], branch[1])

    def _path(self, branch: Branch | None) -> tuple[int, ...]:
        """Return the children on the way from the root, made anew: what was there is for display and could be anything."""
        if branch is None:
            return ()
        return (*self._path(self._parents[branch[0]]), branch[1])


def seeded_ids(seed: int) -> Callable[[], str]:
    """Return a source of ids that gives the same ones for the same seed; they follow from nothing else."""
    import hashlib
    from itertools import count

    numbers = count()
    return lambda: hashlib.sha256(f"publish {seed} {next(numbers)}".encode()).hexdigest()[:_ID_DIGITS]


def random_ids() -> Callable[[], str]:
    """Return a source of ids that nobody can foresee."""
    import secrets

    return partial(secrets.token_hex, _ID_DIGITS // 2)


_ID_DIGITS = 16
