"""The rules of the trace model that one event alone cannot break: references, order, branches, ids.

Types and limits of single fields are checked while a file is read (`reader.py`); this is what remains. The first
breach found is raised as a TraceError that names event, field and what was expected.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rotoscope.traces.errors import TraceError
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


def validate(trace: Trace) -> None:
    """Raise a TraceError where the trace breaks the trace model."""
    shared = _check_shared_prefixes(trace)
    _check_calls(trace, shared)
    branches = _Branches()
    tool_call_ids: set[str] = set()
    calls = {event.call for event in trace.events if isinstance(event, Call)}
    for index, event in enumerate(trace.events):
        branches.check(event, index)
        _check_references(event, index, shared=shared, calls=calls, tool_call_ids=tool_call_ids)


def _check_shared_prefixes(trace: Trace) -> dict[str, SharedPrefix]:
    known: dict[str, SharedPrefix] = {}
    for shared in trace.shared_prefixes:
        where = f"shared_prefixes.{shared.id}"
        if shared.id in known:
            raise TraceError("expected an id of its own, found one that is taken", field=where)
        if shared.prefix is not None:
            parent = known.get(shared.prefix.of)
            if parent is None:
                raise TraceError(
                    f"expected a shared prefix that stands before it, found {shared.prefix.of!r}",
                    field=f"{where}.prefix.of",
                )
            if not shared.prefix.least <= shared.prefix.tokens <= shared.prefix.greatest:
                raise TraceError("expected low <= tokens <= high", field=f"{where}.prefix")
            limit = min(parent.tokens, shared.tokens)
            if shared.prefix.tokens > limit:
                raise TraceError(
                    f"expected at most the {limit} tokens of both streams, found {shared.prefix.tokens}",
                    field=f"{where}.prefix.tokens",
                )
        known[shared.id] = shared
    return known


def _check_calls(trace: Trace, shared: dict[str, SharedPrefix]) -> None:
    calls: dict[int, tuple[int, Call]] = {}
    for index, event in enumerate(trace.events):
        if isinstance(event, Call):
            if event.call in calls:
                raise TraceError(
                    f"expected a number of its own, found {event.call}, which event {calls[event.call][0]} has",
                    event=index,
                    field="call",
                )
            calls[event.call] = (index, event)
    for index, call in calls.values():
        _check_call(call, index)
        _check_prefix(call, index, shared=shared, calls=calls)
        if call.masked is not None:
            _check_prefix(replace(call, prefix=call.masked), index, shared=shared, calls=calls)
        _check_granularity(call, index, trace.prefix_granularity)


def _check_call(call: Call, index: int) -> None:
    if call.reasoning_tokens > call.completion_tokens:
        raise TraceError(
            f"expected at most the {call.completion_tokens} completion_tokens, found {call.reasoning_tokens}",
            event=index,
            field="reasoning_tokens",
        )


def _check_prefix(
    call: Call, index: int, *, shared: dict[str, SharedPrefix], calls: dict[int, tuple[int, Call]]
) -> None:
    prefix = call.prefix
    if not prefix.least <= prefix.tokens <= prefix.greatest:
        raise TraceError("expected low <= tokens <= high", event=index, field="prefix")
    if prefix.greatest > call.prompt_tokens:
        raise TraceError(
            f"expected at most the {call.prompt_tokens} prompt_tokens, found {prefix.greatest}",
            event=index,
            field="prefix.tokens" if prefix.tokens > call.prompt_tokens else "prefix.high",
        )
    if (prefix.of is None) != (prefix.tokens == 0):
        raise TraceError("expected null exactly when tokens is 0", event=index, field="prefix.of")
    if prefix.of is not None:
        limit = _referent_tokens(call, prefix.of, index, shared=shared, calls=calls)
        _check_length(prefix, limit, index)


def _referent_tokens(
    call: Call, of: Node, index: int, *, shared: dict[str, SharedPrefix], calls: dict[int, tuple[int, Call]]
) -> int:
    if isinstance(of, str):
        if of not in shared:
            raise TraceError(f"expected the id of a shared prefix, found {of!r}", event=index, field="prefix.of")
        return shared[of].tokens
    if of not in calls:
        raise TraceError(f"expected the number of a call in this trace, found {of}", event=index, field="prefix.of")
    if of >= call.call:
        raise TraceError(f"expected a call before call {call.call}, found call {of}", event=index, field="prefix.of")
    referent = calls[of][1]
    if referent.domain != call.domain:
        raise TraceError(
            f"expected a call of cache domain {call.domain}, found call {of} of domain {referent.domain}",
            event=index,
            field="prefix.of",
        )
    return referent.stream_tokens


def _check_length(prefix: Prefix, limit: int, index: int) -> None:
    if prefix.tokens > limit:
        raise TraceError(
            f"expected at most the {limit} tokens of the stream {prefix.of!r}, found {prefix.tokens}",
            event=index,
            field="prefix.tokens",
        )


def _check_granularity(call: Call, index: int, granularity: int) -> None:
    if call.prefix.source == "assumed" or call.prefix.tokens == call.prompt_tokens:
        return
    if call.prefix.tokens % granularity:
        raise TraceError(
            f"expected a multiple of prefix_granularity {granularity} or the whole prompt, found {call.prefix.tokens}",
            event=index,
            field="prefix.tokens",
        )


def _check_references(
    event: TraceEvent, index: int, *, shared: dict[str, SharedPrefix], calls: set[int], tool_call_ids: set[str]
) -> None:
    if isinstance(event, Message) and event.system_prompt_id is not None and event.system_prompt_id not in shared:
        raise TraceError(
            f"expected the id of a shared prefix, found {event.system_prompt_id!r}",
            event=index,
            field="system_prompt_id",
        )
    if isinstance(event, ToolCall):
        if event.call is not None and event.call not in calls:
            raise TraceError(
                f"expected the number of a call in this trace, found {event.call}", event=index, field="call"
            )
        if event.tool_call_id in tool_call_ids:
            raise TraceError(
                f"expected an id of its own, found {event.tool_call_id!r}, which is taken",
                event=index,
                field="tool_call_id",
            )
        tool_call_ids.add(event.tool_call_id)


@dataclass
class _Region:
    branch: Branch | None
    num_branches: int
    joined: bool = False


@dataclass
class _Branches:
    """Follow forks and joins through the events: a fork stands before its children, a join after them (R11)."""

    regions: dict[int, _Region] = field(default_factory=dict)

    def check(self, event: TraceEvent, index: int) -> None:
        self._check_branch(event.branch, index)
        if isinstance(event, ParallelStart):
            if event.region in self.regions:
                raise TraceError(
                    f"expected a number of its own, found {event.region}, which is taken", event=index, field="region"
                )
            self.regions[event.region] = _Region(event.branch, event.num_branches)
        elif isinstance(event, ParallelEnd):
            self._join(event, index)

    def _check_branch(self, branch: Branch | None, index: int) -> None:
        while branch is not None:
            number, child = branch
            region = self.regions.get(number)
            if region is None:
                raise TraceError(
                    f"expected a branch of a region that has started, found {list(branch)}", event=index, field="branch"
                )
            if child >= region.num_branches:
                raise TraceError(
                    f"expected one of the {region.num_branches} branches of region {number}, found {list(branch)}",
                    event=index,
                    field="branch",
                )
            if region.joined:
                raise TraceError(
                    f"expected no event of branch {list(branch)} after its join", event=index, field="branch"
                )
            branch = region.branch

    def _join(self, event: ParallelEnd, index: int) -> None:
        region = self.regions.get(event.region)
        if region is None:
            raise TraceError(
                f"expected a region that has started, found {event.region}: join without fork",
                event=index,
                field="region",
            )
        if region.joined:
            raise TraceError(f"expected one join, found a second of region {event.region}", event=index, field="region")
        if region.branch != event.branch:
            raise TraceError(f"expected the branch that region {event.region} started on", event=index, field="branch")
        region.joined = True
