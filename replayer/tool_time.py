"""A trace without the time of people and of the agent itself: between an answer and the next request only tools take time.

Waits take none. Where it is known when the tools of an answer ran, the time after the answer in which none of them did
is left out too: it passed with people and the agent, as when somebody is asked whether a tool may run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rotoscope.traces.model import ToolCall, Trace, TraceEvent, Wait


@dataclass(frozen=True, slots=True)
class _Run:
    """When a tool ran, counted from the answer that asked for it."""

    event: int
    start_ms: float
    end_ms: float


def only_tool_time(trace: Trace) -> Trace:
    """Return the trace with waits of no length and tools that follow the answer, or another tool of it, at once.

    Tools of one answer that ran at the same time still do.
    """
    earlier_ms = dict(_idle_before(trace))
    return replace(
        trace, events=tuple(_changed(event, earlier_ms.get(index, 0.0)) for index, event in enumerate(trace.events))
    )


def _changed(event: TraceEvent, earlier_ms: float) -> TraceEvent:
    match event:
        case Wait():
            return replace(event, duration_ms=0.0)
        case ToolCall() if event.at_ms is not None and earlier_ms:
            return replace(event, at_ms=event.at_ms - earlier_ms)
        case _:
            return event


def _idle_before(trace: Trace) -> Iterator[tuple[int, float]]:
    """Yield the index of each tool whose answer is known, and how long none of that answer's had run before it."""
    for runs in _by_answer(trace):
        busy_until_ms = idle_ms = 0.0
        for run in sorted(runs, key=lambda run: run.start_ms):
            idle_ms += max(run.start_ms - busy_until_ms, 0.0)
            busy_until_ms = max(busy_until_ms, run.end_ms)
            yield run.event, idle_ms


def _by_answer(trace: Trace) -> Iterator[Sequence[_Run]]:
    ends_ms = {
        call.call: call.at_ms + call.duration_ms
        for call in trace.calls()
        if call.at_ms is not None and call.duration_ms is not None
    }
    runs: dict[int, list[_Run]] = {}
    for index, event in enumerate(trace.events):
        if isinstance(event, ToolCall) and event.at_ms is not None and event.call in ends_ms:
            since_ms = event.at_ms - ends_ms[event.call]
            runs.setdefault(event.call, []).append(_Run(index, since_ms, since_ms + event.duration_ms))
    yield from runs.values()
