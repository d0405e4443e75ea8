"""The events of a Weka session in their order: calls, sub-agents as regions, and what the client did in between.

1. A region joins before the parent's first request that was sent after all of its sub-agents had ended; if there is
   none it never joins.
2. What the client did between an answer and the next request of the branch is `think_time`: a tool call when the
   answer asked for tools and the request brings a result, a wait otherwise. Without the answer's api_time think_time
   may reach further back; the gap is then at most the time between the two requests. Where sub-agents start or join in
   between, the gap is what is left of it before and after.

The format has no messages and no tool names: answers get the odd message indices, all tools one pseudonym.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count, pairwise

from rotoscope.traces.formats.fields import Notes
from rotoscope.traces.formats.weka_schedule import Agent, Line, Region, Schedule, Sent
from rotoscope.traces.model import (
    Branch,
    Call,
    FinishReason,
    ParallelEnd,
    ParallelStart,
    Prefix,
    ToolCall,
    TraceEvent,
    Wait,
    WaitKind,
)

_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}


@dataclass(slots=True)
class Timeline:
    """Collects events with the times they are sorted by; equal times keep the order in which they were added."""

    schedule: Schedule
    domains: list[int]
    prefixes: list[Prefix]
    zero_ms: float
    notes: Notes
    timed: list[tuple[float, TraceEvent]] = field(default_factory=list)
    conversations: int = 0

    @classmethod
    def of(cls, schedule: Schedule, domains: list[int], prefixes: list[Prefix], notes: Notes) -> Timeline:
        """Add all that happened; domains and prefixes are those of the calls, by number."""
        calls = schedule.calls()
        timeline = cls(schedule, domains, prefixes, calls[0].sent_ms if calls else 0.0, notes)
        timeline._add_parent()
        return timeline

    def in_order(self) -> tuple[TraceEvent, ...]:
        """Return all events by time."""
        numbers = count()
        return tuple(
            replace(event, tool_call_id=f"t{next(numbers)}") if isinstance(event, ToolCall) else event
            for _, event in sorted(self.timed, key=lambda item: item[0])
        )

    def _add_parent(self) -> None:
        parent = self.schedule.parent
        conversation = self._new_conversation()
        unjoined: list[tuple[float, int, Region]] = []
        order = count()
        for index, sent in enumerate(parent):
            previous = parent[index - 1] if index else None
            started = list(self.schedule.regions_started(previous, sent))
            for region in started:
                heappush(unjoined, (region.end_ms, next(order), region))
            joined = _ended(unjoined, sent.sent_ms)
            self._add_gap_with_regions(previous, sent, started, joined)
            self._add_call(sent, None, conversation, index)
        for region in self.schedule.regions_started(parent[-1] if parent else None, None):
            self._add_region(region)

    def _add_gap_with_regions(
        self, previous: Sent | None, sent: Sent, started: list[Region], joined: list[Region]
    ) -> None:
        if not started and not joined:
            if previous is not None:
                self._add_gap(previous, sent, None)
            return
        at_ms = None if previous is None else previous.ended_ms
        for region in started:
            if at_ms is not None:
                self._add_wait(at_ms, region.start_ms - at_ms, None)
            self._add_region(region)
            at_ms = region.start_ms if at_ms is None else max(at_ms, region.start_ms)
        for region in joined:
            at_ms = region.end_ms if at_ms is None else max(at_ms, region.end_ms)
            self._add(min(at_ms, sent.sent_ms), ParallelEnd(region=region.number))
        if previous is not None and at_ms is not None:
            self._add_client_time(previous, sent, at_ms, sent.sent_ms - at_ms, None)

    def _add_region(self, region: Region) -> None:
        self._add(region.start_ms, ParallelStart(region=region.number, num_branches=len(region.agents)))
        for index, agent in enumerate(region.agents):
            self._add_agent(agent, (region.number, index), region.start_ms)

    def _add_agent(self, agent: Agent, branch: Branch, forked_ms: float) -> None:
        self._add_wait(forked_ms, agent.start_ms - forked_ms, branch, kind="agent")
        if agent.line:
            self._add_wait(agent.start_ms, agent.line[0].sent_ms - agent.start_ms, branch)
        self._add_line(agent.line, branch)
        ended_ms = agent.line[-1].ended_ms if agent.line else agent.start_ms
        if ended_ms is not None:
            self._add_wait(ended_ms, agent.end_ms - ended_ms, branch)

    def _add_line(self, line: Line, branch: Branch) -> None:
        conversation = self._new_conversation()
        if line:
            self._add_call(line[0], branch, conversation, 0)
        for index, (previous, sent) in enumerate(pairwise(line), 1):
            self._add_gap(previous, sent, branch)
            self._add_call(sent, branch, conversation, index)

    def _add_gap(self, previous: Sent, sent: Sent, branch: Branch | None) -> None:
        think_ms = sent.request.think_ms
        if previous.ended_ms is not None:
            gap_ms = max(sent.sent_ms - previous.ended_ms, 0.0) if think_ms is None else think_ms
            self._add_client_time(previous, sent, min(previous.ended_ms, sent.sent_ms), gap_ms, branch)
            return
        between_ms = sent.sent_ms - previous.sent_ms
        self.notes.add("answer without api_time before a gap (gap at most the time between the requests)")
        gap_ms = between_ms if think_ms is None else min(think_ms, between_ms)
        self._add_client_time(previous, sent, sent.sent_ms - gap_ms, gap_ms, branch)

    def _add_client_time(
        self, previous: Sent, sent: Sent, at_ms: float, duration_ms: float, branch: Branch | None
    ) -> None:
        """Add what the client did before a request: tools, if that is what the last answer asked for, or a wait."""
        if previous.request.stop != "tool_use" or not sent.request.takes_tool_result:
            self._add_wait(at_ms, duration_ms, branch)
            return
        self._add(
            at_ms,
            ToolCall(
                tool_call_id="t0",  # numbered when all are in order
                tool_name="tool0",
                duration_ms=_rounded(max(duration_ms, 0.0)),
                call=previous.call,
                at_ms=self._since_start(at_ms),
                time_source="gap",
                branch=branch,
                branch_path=_display(branch),
            ),
        )

    def _add_wait(self, at_ms: float, duration_ms: float, branch: Branch | None, *, kind: WaitKind = "think") -> None:
        if duration_ms <= 0:
            return
        wait = Wait(
            kind=kind,
            duration_ms=_rounded(duration_ms),
            at_ms=self._since_start(at_ms),
            branch=branch,
            branch_path=_display(branch),
        )
        self._add(at_ms, wait)

    def _add_call(self, sent: Sent, branch: Branch | None, conversation: int, index: int) -> None:
        request = sent.request
        self._add(
            sent.sent_ms,
            Call(
                call=sent.call,
                domain=self.domains[sent.call],
                conversation_id=conversation,
                message_index=2 * index + 1,
                prompt_tokens=request.prompt_tokens,
                completion_tokens=request.completion_tokens,
                reasoning_unsized=request.thinks,
                prefix=self.prefixes[sent.call],
                finish_reason=_FINISH_REASONS.get(request.stop, "unknown"),
                at_ms=self._since_start(sent.sent_ms),
                ttft_ms=None if request.ttft_ms is None else _rounded(request.ttft_ms),
                duration_ms=None if request.api_ms is None else _rounded(request.api_ms),
                branch=branch,
                branch_path=_display(branch),
            ),
        )

    def _add(self, at_ms: float, event: TraceEvent) -> None:
        self.timed.append((at_ms, event))

    def _new_conversation(self) -> int:
        self.conversations += 1
        return self.conversations - 1

    def _since_start(self, at_ms: float) -> float:
        return max(_rounded(at_ms - self.zero_ms), 0.0)


def _ended(unjoined: list[tuple[float, int, Region]], by_ms: float) -> list[Region]:
    """Take the regions that have ended by then from the heap, in the order in which they started."""
    ended = []
    while unjoined and unjoined[0][0] <= by_ms:
        ended.append(heappop(unjoined)[1:])
    return [region for _, region in sorted(ended, key=lambda item: item[0])]


def _rounded(milliseconds: float) -> float:
    """Round to microseconds: the rest is noise of the conversion from seconds."""
    return round(milliseconds, 3)


def _display(branch: Branch | None) -> tuple[int, ...]:
    return () if branch is None else (branch[1],)
