"""Ids and times of a trace that say more than they are for: numbers that could be others, and digits that nobody measures.

An id only tells one thing from another. So those of one trace are 0, 1, 2 and so on, a pseudonym is spelled in one way,
and the path of a branch follows from its region. Tools, cache domains and shared prefixes have numbers of a whole corpus
or campaign, of which a trace may have any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import copysign

from rotoscope.traces.model import Branch, Call, Message, ParallelStart, ToolCall, Trace

_RENUMBER = "publish it, which numbers them anew"
_SPELLING = re.compile(r"(tool([0-9]{1,2}|[1-9][0-9]*)|[st](0|[1-9][0-9]*))\Z")
_UUID_WITH_TIME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[167][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_DATE = re.compile(r"20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")


def loose_ids(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yield field and fault of the ids and paths of a trace that are valid, but need not be what they are."""
    for name, numbers in _numbers(trace).items():
        if numbers != set(range(len(numbers))):
            yield name, f"numbers are not 0, 1, 2 and so on: {_RENUMBER}"
    if not all(map(_SPELLING.match, _pseudonyms(trace))):
        yield "tool_name, tool_call_id or id", f"a number begins with zeros: {_RENUMBER}"
    if any(not _is_path_of_branch(path, branch, trace) for path, branch in _paths(trace)):
        yield "branch_path", f"a path is not that of its branch: {_RENUMBER}"
    for name, value in (("trace_id", trace.trace_id), ("campaign", trace.campaign)):
        if _UUID_WITH_TIME.match(value) or _DATE.match(value):
            yield name, "an id that holds a time: publish it, which makes ids anew"


def fine_times(times_ms: Iterable[float | None]) -> bool:
    """Tell whether any time is no whole number of microseconds, or is zero from below."""
    return any(
        time_ms is not None and (round(time_ms, 3) != time_ms or (time_ms == 0 and copysign(1, time_ms) < 0))
        for time_ms in times_ms
    )


def _numbers(trace: Trace) -> dict[str, set[int]]:
    calls = list(trace.calls())
    return {
        "call": {call.call for call in calls},
        "conversation_id": {one.conversation_id for one in trace.events if isinstance(one, Call | Message)},
        "region": {one.region for one in trace.events if isinstance(one, ParallelStart)},
        "request": {call.request for call in calls if call.request is not None},
        "tool_call_id": {int(one.tool_call_id[1:]) for one in trace.events if isinstance(one, ToolCall)},
    }


def _pseudonyms(trace: Trace) -> Iterator[str]:
    yield from (shared.id for shared in trace.shared_prefixes)
    for event in trace.events:
        match event:
            case Call(tool_calls=tools):
                yield from tools
            case ToolCall(tool_name=tool, tool_call_id=number):
                yield from (tool, number)


def _paths(trace: Trace) -> set[tuple[tuple[int, ...], Branch | None]]:
    return {(event.branch_path, event.branch) for event in trace.events}


def _is_path_of_branch(path: tuple[int, ...], branch: Branch | None, trace: Trace) -> bool:
    """Whether a path has a step for each fork above, and each step is one of so many branches as there are.

    Formats that have paths alone number the children of all regions of a branch in one row.
    """
    if not path:
        return True
    forks = {one.region: one for one in trace.events if isinstance(one, ParallelStart)}
    branches, depth = sum(fork.num_branches for fork in forks.values()), 0
    while branch is not None:
        branch, depth = forks[branch[0]].branch, depth + 1
    return len(path) == depth and all(step < branches for step in path)
