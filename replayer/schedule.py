"""What each step of a session waits for (R10): a graph of calls, sleeps and joins; no clock, no socket.

1. Events of a branch follow one another in the order of the trace. Messages, embeddings and dropped caches take no time
   and are left out; embeddings are not replayed.
2. A child of a region starts after what preceded the fork on its parent's branch; the parent itself may go on. A join
   waits for the last steps of all children. A region that is never joined holds up nothing but the end of the session.
3. A tool whose time is known relative to the answer that asked for it starts that long after the answer, whatever other
   tools do; the next step of the branch waits for all of them. Other tools and waits come one after another, but for
   tools that were recorded as running at the same time.
4. A call also waits for every call whose output lies in its prompt, through any chain of references: until it has
   ended, or, if the call was recorded as sent before that, until it has delivered as many tokens as the prompt takes.
   What is implied by a wait further down the chain is not repeated.
5. The choices of one request, calls that follow one another on a branch, start together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Literal, TypeAlias, assert_never, cast, get_args

from rotoscope.replayer.tool_time import only_tool_time
from rotoscope.traces.errors import TraceError, UnusableInput
from rotoscope.traces.model import (
    Branch,
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)

StepKind: TypeAlias = Literal["call", "tool", "wait", "join"]
"""Tools and waits are slept through."""
GapKind: TypeAlias = Literal["recorded", "tools", "none"]
Delivered: TypeAlias = tuple[int, int]
"""A call and how many tokens of its output must have arrived; what has ended has delivered all it will."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """How recorded gaps are kept: the time from an answer, or a join, to the next request of the branch."""

    kind: GapKind = "recorded"
    """What of them: all, the time of tools without that of people and of the agent itself, or nothing."""
    scale: float = 1.0
    cap_s: float | None = None
    """The longest gap, after scaling."""

    def __post_init__(self) -> None:
        if self.kind == "none" and (self.scale != 1.0 or self.cap_s is not None):
            raise UnusableInput("expected no gaps, or a scale or cap of them, not both")
        if not (isfinite(self.scale) and self.scale >= 0):
            raise UnusableInput(f"expected a gap scale of 0 or more, found {self.scale}")
        if self.cap_s is not None and not 0 <= self.cap_s < inf:
            raise UnusableInput(f"expected a gap cap of 0 s or more, found {self.cap_s}")

    def seconds(self, start_ms: float, stop_ms: float) -> float:
        """Return how long a sleep lasts that was recorded from `start_ms` to `stop_ms` of a gap."""
        return self._kept_s(stop_ms) - self._kept_s(start_ms)

    def _kept_s(self, gap_ms: float) -> float:
        if self.kind == "none":
            return 0.0
        return min(gap_ms / 1000 * self.scale, inf if self.cap_s is None else self.cap_s)


NO_GAPS = Gaps("none")


def gap_kind(text: str) -> GapKind:
    """Read what is kept of gaps; raise UnusableInput for anything else."""
    for kind in get_args(GapKind):
        if kind == text:
            return cast(GapKind, kind)
    raise UnusableInput(f"no gaps {text!r}: choose one of {', '.join(get_args(GapKind))}")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a session does when all that it waits for is there."""

    kind: StepKind
    branch: Branch | None
    after: tuple[int, ...]
    """Steps, by index in the schedule, that must have ended; all are smaller than its own index."""
    delivered: tuple[Delivered, ...] = ()
    call: int | None = None
    seconds: float = 0.0
    """How long a tool or a wait lasts."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a session, each behind those that it waits for; the session ends when all have ended."""

    steps: tuple[Step, ...]


def plan_session(trace: Trace, gaps: Gaps | None = None) -> Schedule:
    """Return the schedule of a session that performs the trace; raise TraceError if steps wait for one another."""
    gaps = gaps or Gaps()
    if gaps.kind == "tools":
        trace = only_tool_time(trace)
    planner = _Planner(gaps)
    for index, event in enumerate(trace.events):
        planner.add(event, index)
    _wait_for_outputs(planner, trace)
    return Schedule(tuple(_in_order(planner.drafts)))


@dataclass(slots=True)
class _Draft:
    kind: StepKind
    event: int
    branch: Branch | None
    after: dict[int, None]
    delivered: list[Delivered] = field(default_factory=list)
    call: int | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"call {self.call}" if self.kind == "call" else f"this {self.kind}"


@dataclass(frozen=True, slots=True)
class _Together:
    """Tools that ran at the same time, by the first of them."""

    at_ms: float
    end_ms: float
    """Of the last one."""
    gap_ms: float
    """Time since the branch's last answer or join, when the first one began."""
    after: dict[int, None]
    """What they wait for."""


@dataclass(slots=True)
class _Line:
    """How far a branch has come."""

    last: dict[int, None]
    """Steps, as an ordered set, that its next one waits for."""
    call: Call | None = None
    gap_ms: float = 0.0
    """Recorded time since its last answer or join."""
    before: dict[int, None] = field(default_factory=dict)
    """Steps that its last call waited for."""
    together: _Together | None = None
    """Where its last step is one of tools."""

    def copy(self) -> _Line:
        return _Line(dict(self.last), self.call, self.gap_ms, dict(self.before))


@dataclass(slots=True)
class _Region:
    branch: Branch | None
    first_step: int
    """Steps before this one stand before the fork."""
    start: _Line
    children: list[_Line] = field(default_factory=list)
    """Those of which there are events."""


class _Planner:
    """Takes events in the order of the trace and drafts their steps."""

    def __init__(self, gaps: Gaps) -> None:
        self.drafts: list[_Draft] = []
        self._gaps = gaps
        self._lines: dict[Branch | None, _Line] = {None: _Line({})}
        self._regions: dict[int, _Region] = {}
        self._calls: dict[int, tuple[int, Call]] = {}

    def add(self, event: TraceEvent, index: int) -> None:
        match event:
            case Call():
                self._call(event, index)
            case ToolCall():
                self._tool(event, index)
            case Wait():
                self._sleep("wait", event, index)
            case ParallelStart():
                self._fork(event, index)
            case ParallelEnd():
                self._join(event, index)
            case Message() | Embedding() | DropKvCache():
                pass
            case _:
                assert_never(event)

    def leads_to(self, step: int, branch: Branch | None, limit: int) -> bool:
        """Whether a step stands before step `limit` of this branch, be it on one that the branch comes from."""
        while branch != self.drafts[step].branch or step >= limit:
            if branch is None:
                return False
            region = self._regions[branch[0]]
            branch, limit = region.branch, region.first_step
        return True

    def _call(self, call: Call, index: int) -> None:
        line = self._line(call.branch, index)
        is_choice = _are_choices(call, line.call) and all(self.drafts[step].kind == "call" for step in line.last)
        before, others = (line.before, line.last) if is_choice else (line.last, {})
        step = self._draft("call", index, call.branch, before, call=call.call)
        self._calls[call.call] = step, call
        line.last, line.before, line.call, line.gap_ms = {**others, step: None}, before, call, 0.0
        line.together = None

    def _tool(self, tool: ToolCall, index: int) -> None:
        step, asking = self._calls.get(-1 if tool.call is None else tool.call, (-1, None))
        if tool.at_ms is None or asking is None or asking.at_ms is None or asking.duration_ms is None:
            self._tool_in_order(tool, index)
            return
        line = self._line(tool.branch, index)
        line.together = None
        ends_ms = max(tool.at_ms + tool.duration_ms - (asking.at_ms + asking.duration_ms), 0.0)
        after = {step: None}
        if not self.leads_to(step, tool.branch, len(self.drafts)):
            after |= self._start(tool.branch)
        sleep = self._draft("tool", index, tool.branch, after, seconds=self._gaps.seconds(0.0, ends_ms))
        line.last.pop(step, None)
        line.last[sleep] = None
        if asking is line.call or _are_choices(asking, line.call):
            line.gap_ms = max(line.gap_ms, ends_ms)

    def _tool_in_order(self, tool: ToolCall, index: int) -> None:
        """Let a tool run behind what came before it, or beside the tools that it was recorded beside."""
        line = self._line(tool.branch, index)
        known = line.together
        if tool.at_ms is None or known is None or not known.at_ms <= tool.at_ms < known.end_ms:
            before, gap_ms = dict(line.last), line.gap_ms
            self._sleep("tool", tool, index)
            if tool.at_ms is not None:
                line.together = _Together(tool.at_ms, tool.at_ms + tool.duration_ms, gap_ms, before)
            return
        end_ms = tool.at_ms + tool.duration_ms
        stop_ms = known.gap_ms + end_ms - known.at_ms
        seconds = self._gaps.seconds(known.gap_ms, stop_ms)
        line.last[self._draft("tool", index, tool.branch, known.after, seconds=seconds)] = None
        line.gap_ms = max(line.gap_ms, stop_ms)
        line.together = replace(known, end_ms=max(known.end_ms, end_ms))

    def _sleep(self, kind: StepKind, event: ToolCall | Wait, index: int) -> None:
        line = self._line(event.branch, index)
        start_ms, line.gap_ms = line.gap_ms, line.gap_ms + event.duration_ms
        seconds = self._gaps.seconds(start_ms, line.gap_ms)
        sleep = self._draft(kind, index, event.branch, line.last, seconds=seconds)
        line.last, line.together = {sleep: None}, None

    def _fork(self, fork: ParallelStart, index: int) -> None:
        line = self._line(fork.branch, index)
        line.together = None
        if len(line.last) > 1:  # so that many children need not wait for many tools each
            line.last = {self._draft("join", index, fork.branch, line.last): None}
        self._regions[fork.region] = _Region(fork.branch, len(self.drafts), line.copy())

    def _join(self, join: ParallelEnd, index: int) -> None:
        line = self._line(join.branch, index)
        region = self._regions.get(join.region)
        if region is None:
            raise TraceError("expected a region that has started: join without fork", event=index, field="region")
        lasts = dict(line.last)
        for child in region.children:
            lasts |= child.last
        line.last, line.gap_ms = {self._draft("join", index, join.branch, lasts): None}, 0.0
        line.together = None

    def _draft(
        self,
        kind: StepKind,
        event: int,
        branch: Branch | None,
        after: Iterable[int],
        *,
        call: int | None = None,
        seconds: float = 0.0,
    ) -> int:
        self.drafts.append(_Draft(kind, event, branch, dict.fromkeys(after), call=call, seconds=seconds))
        return len(self.drafts) - 1

    def _line(self, branch: Branch | None, index: int) -> _Line:
        if branch not in self._lines:
            region = self._regions.get(branch[0]) if branch else None
            if region is None:
                raise TraceError("expected a branch of a region that has started", event=index, field="branch")
            self._lines[branch] = region.start.copy()
            region.children.append(self._lines[branch])
        return self._lines[branch]

    def _start(self, branch: Branch | None) -> dict[int, None]:
        return self._regions[branch[0]].start.last if branch else {}


def _wait_for_outputs(planner: _Planner, trace: Trace) -> None:
    """Let calls wait for the outputs in their prompts, in the order of their numbers.

    `nearest` is the last output in a call's prompt; those before it are the outputs in the prompt of that call.
    `running` are the outputs in a call's prompt whose calls may not have ended when it starts.
    """
    steps = {draft.call: index for index, draft in enumerate(planner.drafts) if draft.call is not None}
    calls: dict[int, Call] = {}
    nearest: dict[int, Delivered | None] = {}
    running: dict[int, list[Delivered]] = {}
    for call in trace.calls():
        draft = planner.drafts[steps[call.call]]
        last = nearest[call.call] = _nearest_output(call, calls, nearest, draft.event)
        running[call.call] = []
        for output in [last, *running[last[0]]] if last else []:
            step = steps[output[0]]
            if planner.leads_to(step, call.branch, steps[call.call]) and not _are_choices(call, calls[output[0]]):
                continue
            if not _was_sent_before_end(call, calls[output[0]]):
                draft.after[step] = None
            else:
                running[call.call].append(output)
                if output == last:
                    draft.delivered.append(output)
        calls[call.call] = call


def _nearest_output(
    call: Call, calls: dict[int, Call], nearest: dict[int, Delivered | None], event: int
) -> Delivered | None:
    of, tokens = call.prefix.of, call.prefix.tokens
    while isinstance(of, int):
        if of not in calls:
            raise TraceError(f"expected a call before call {call.call}, found {of}", event=event, field="prefix.of")
        if tokens > calls[of].prompt_tokens:
            return of, tokens - calls[of].prompt_tokens
        if tokens > calls[of].prefix.tokens:
            return nearest[of]
        of = calls[of].prefix.of
    return None


def _are_choices(call: Call, other: Call | None) -> bool:
    """Whether two calls came in one request."""
    return other is not None and call.request is not None and call.request == other.request


def _was_sent_before_end(call: Call, other: Call) -> bool:
    if call.at_ms is None or other.at_ms is None or other.duration_ms is None:
        return False
    return call.at_ms < other.at_ms + other.duration_ms


def _in_order(drafts: list[_Draft]) -> list[Step]:
    """Number the steps anew so that each stands behind those it waits for, otherwise as in the trace."""
    calls = {draft.call: index for index, draft in enumerate(drafts)}
    waits = [{*draft.after, *(calls[call] for call, _ in draft.delivered)} for draft in drafts]
    followers: list[list[int]] = [[] for _ in drafts]
    for index, earlier in enumerate(waits):
        for step in earlier:
            followers[step].append(index)
    missing = [len(earlier) for earlier in waits]
    ready = [index for index, count in enumerate(missing) if not count]
    numbers: dict[int, int] = {}
    while ready:
        index = heapq.heappop(ready)
        numbers[index] = len(numbers)
        for follower in followers[index]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)
    if len(numbers) < len(drafts):
        stuck = next(draft for index, draft in enumerate(drafts) if index not in numbers)
        raise TraceError(f"{stuck.name} waits, through others, for itself", event=stuck.event)
    return [_step(drafts[index], numbers) for index in numbers]


def _step(draft: _Draft, numbers: dict[int, int]) -> Step:
    after = tuple(sorted(numbers[step] for step in draft.after))
    return Step(draft.kind, draft.branch, after, tuple(draft.delivered), draft.call, draft.seconds)
