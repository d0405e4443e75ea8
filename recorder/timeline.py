"""From calls, conversations and branches to the events of a trace, with what the client did between calls.

What the agent told of itself (`marks.py`) stands as it was timed. Of the rest, the time between a call and what its
branch did before is a tool's when the call carries results of tools that the conversation's previous answer asked for,
or that answer and something behind it in other words, else a wait. While a region runs and is waited for, that time is
the region's; so nothing is counted twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.conversations import Turn
from rotoscope.recorder.origins import is_same_request
from rotoscope.recorder.placing import Placed, place
from rotoscope.recorder.prefixes import PrefixFinder
from rotoscope.recorder.regions import Lanes, Region
from rotoscope.recorder.told import Timed, Told, ended_ms
from rotoscope.traces.journal import ToolRan
from rotoscope.traces.model import (
    Branch,
    Call,
    Message,
    ParallelEnd,
    ParallelStart,
    Role,
    TimeSource,
    TokenSource,
    ToolCall,
    TraceEvent,
    Wait,
    WaitKind,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "tool": "tool",
    "assistant": "assistant",
    "text": "user",
    "opaque": "user",
}


@dataclass(slots=True)
class Timeline:
    """Write the events of a run in the order of its calls."""

    run: SeenRun
    turns: Sequence[Turn]
    lanes: Lanes
    found: PrefixFinder
    told: Told
    token_source: TokenSource
    """Where counts come from unless an event says otherwise."""
    events: list[TraceEvent] = field(default_factory=list)
    open: defaultdict[Branch | None, list[Region]] = field(default_factory=lambda: defaultdict(list))
    """Regions that have begun and are not joined, by the branch that they stand on."""
    cursors: dict[Branch | None, float] = field(default_factory=dict)
    """Until when each branch is accounted for."""
    asked: set[Branch | None] = field(default_factory=set)
    """Branches whose last answer asked for tools."""
    agents: dict[Branch | None, int] = field(default_factory=dict)
    """How many agents were joined on each branch since its last answer."""
    agent_tools: set[int] = field(default_factory=set)
    """Tools that are known to begin agents."""
    timed: dict[Branch | None, deque[Timed]] = field(default_factory=dict)
    """What the agent told of each branch and is not written yet, by its end."""
    placed: Placed = field(init=False)
    ran: defaultdict[Branch | None, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Which tools it told of since the last call of each branch, but for those that are known to be of a call."""
    answered: dict[Branch | None, SeenCall] = field(default_factory=dict)
    """The last call of each branch, until a region is joined."""
    tools: int = 0
    numbers: dict[int, int] = field(default_factory=dict)
    """The number of each call by that in the journal."""
    _told_of: set[int] = field(default_factory=set)
    """Regions of whose branches all is written that the agent told."""
    _requests: dict[int, int] = field(default_factory=dict)
    """Requests of several calls by their numbers in the journal."""

    def __post_init__(self) -> None:
        self.numbers = {call.opened.call: call.number for call in self.run.calls}
        self.placed = place(self.told, self.run.calls, self.turns, self.lanes)
        self.timed = self.placed.timed

    def write(self) -> tuple[TraceEvent, ...]:
        """Return all events."""
        starting: defaultdict[int, list[Region]] = defaultdict(list)
        for region in self.lanes.regions:
            starting[region.begins_before].append(region)
        for call in self.run.calls:
            self._write_call(call, self.turns[call.number], starting[call.number])
        self._end()
        return tuple(self.events)

    def _end(self) -> None:
        """Write what the agent told of the time behind the last calls, the inner branches first."""
        for region in reversed(self.lanes.regions):
            if region not in self.open[region.branch]:
                continue
            self._tell_below(region)
            if region.joined is not None:
                self._close(region)
        self._tell(None, inf)

    def _tell(self, branch: Branch | None, until_ms: float) -> None:
        """Write what the agent told of a branch and was over by then."""
        timed = self.timed.get(branch, deque())
        over: list[Timed] = []
        while timed and ended_ms(timed[0]) <= until_ms:
            over.append(timed.popleft())
        for one in sorted(over, key=lambda x: x.at_ms):
            if isinstance(one, ToolRan):
                self._tell_tool(one, branch)
            else:
                self._wait(branch, one.at_ms, "think")
                self._wait(branch, ended_ms(one), one.kind)

    def _tell_tool(self, ran: ToolRan, branch: Branch | None) -> None:
        placed = self.placed.asking.get(id(ran))
        asking = self.answered.get(branch) if placed is None else self.run.calls[placed]
        if asking is None:
            self._wait(branch, ran.at_ms, "think")
        self._tool(ran.tool, branch, ran.at_ms, ran.duration_ms, asking=asking, source="sdk")
        if placed is None:
            self.ran[branch][ran.tool] += 1
        self.cursors[branch] = max(self.cursors.get(branch, 0.0), ended_ms(ran))

    def _tool(
        self,
        tool: int,
        branch: Branch | None,
        at_ms: float | None,
        duration_ms: float,
        *,
        asking: SeenCall | None,
        source: TimeSource,
    ) -> None:
        self.events.append(
            ToolCall(
                branch=branch,
                tool_call_id=f"t{self.tools}",
                tool_name=f"tool{tool:02}",
                duration_ms=duration_ms,
                call=None if asking is None else asking.number,
                at_ms=at_ms,
                time_source=source,
            )
        )
        self.tools += 1

    def _start(self, region: Region, before: SeenCall) -> None:
        branch = region.branch
        self._join(before, branch, region.start_ms)
        self._tell(branch, region.start_ms)
        if region.is_awaited:
            self._wait(branch, region.start_ms, "agent" if branch in self.asked else "think")
        width = len(region.conversations)
        fork = ParallelStart(branch=branch, region=region.number, num_branches=width, evidence=region.evidence)
        self.events.append(fork)
        for index in range(width):
            self.cursors[region.number, index] = min(self.cursors.get(branch, 0.0), region.start_ms)
        self.open[branch].append(region)

    def _is_there(self, branch: Branch | None) -> bool:
        return branch is None or branch in self.cursors

    def _join(self, before: SeenCall, branch: Branch | None, now_ms: float, *, asking: SeenCall | None = None) -> None:
        """Join the regions of agents that have ended when their branch goes on, but with results of tools beside them.

        A branch that has a call in flight does not wait for anything, so it joins nothing.
        """
        if now_ms < self.cursors.get(branch, 0.0):
            return
        for region in list(self.open[branch]):
            if self._is_joined(region, before, now_ms, asking):
                self._tell_below(region)
                self._close(region)

    def _is_joined(self, region: Region, before: SeenCall, now_ms: float, asking: SeenCall | None) -> bool:
        if region.told is not None:
            return region.joined is not None and region.joined.at_ms <= now_ms
        has_ended = region.last_call < before.number and self._end_ms(region) <= now_ms
        return has_ended and region.agents > 0 and not _ran_beside(region, asking)

    def _tell_below(self, region: Region) -> None:
        """Write what the agent told of a region's branches, joins below it included, and of their parent's branch."""
        telling = [self._tell_within(region)]
        while telling:  # agents that hand on to one another go deeper than a stack does
            inner = next(telling[-1], None)
            if inner is None:
                telling.pop()
            else:
                telling.append(self._tell_within(inner))

    def _tell_within(self, region: Region) -> Iterator[Region]:
        """Write it of a region, once; yield those below it, of which it is to be written before this goes on."""
        if region.number in self._told_of:
            return
        self._told_of.add(region.number)
        for index in range(len(region.conversations)):
            branch = region.number, index
            for inner in list(self.open[branch]):
                yield inner
                if inner.joined is not None:
                    self._close(inner)
            self._tell(branch, inf)
        self._tell(region.branch, self._end_ms(region))

    def _close(self, region: Region) -> None:
        """Join a region."""
        branch = region.branch
        self.events.append(ParallelEnd(branch=branch, region=region.number))
        self.cursors[branch] = max(self.cursors.get(branch, 0.0), self._end_ms(region))
        self.agents[branch] = self.agents.get(branch, 0) + region.agents
        self.answered.pop(branch, None)
        self.open[branch].remove(region)

    def _end_ms(self, region: Region) -> float:
        """Return when the last of a region's branches has nothing left to do, waits before regions of its own included."""
        branches = ((region.number, index) for index in range(len(region.conversations)))
        return max(region.end_ms, *(self.cursors.get(branch, 0.0) for branch in branches))

    def _write_call(self, call: SeenCall, turn: Turn, starting: Sequence[Region]) -> None:
        """Write a call behind what its branch did before; regions that begin before it do so when that is over."""
        branch = self.lanes.branches[turn.conversation]
        later = []
        for region in starting:
            if region.branch == branch or not self._is_there(region.branch):
                later.append(region)
            else:
                self._start(region, call)
        asking = self._asking(call, turn)
        self._join(call, branch, call.start_ms, asking=asking)
        self._tell(branch, call.start_ms)
        if asking is not None:
            self._run_tools(asking, self._untold(asking, self._answered(asking, call, turn), branch), call, branch)
        self._wait(branch, call.start_ms, self._wait_kind(branch, turn))
        for region in later:
            self._start(region, call)
        self._write_messages(call, turn, branch)
        self.events.append(self._call(call, turn, branch))
        self.cursors[branch] = max(self.cursors.get(branch, 0.0), call.start_ms if call.end is None else call.end_ms)
        self.agents.pop(branch, None)
        self.ran.pop(branch, None)
        self.answered[branch] = call
        (self.asked.add if call.tools else self.asked.discard)(branch)

    def _wait_kind(self, branch: Branch | None, turn: Turn) -> WaitKind:
        """Before the first call of another conversation, a branch waits for the agent that makes it."""
        return "agent" if turn.before is None and (branch is not None or branch in self.asked) else "think"

    def _wait(self, branch: Branch | None, until_ms: float, kind: WaitKind) -> None:
        start_ms = self.cursors.get(branch, 0.0)
        duration_ms = round(until_ms - start_ms, 3)
        if duration_ms > 0:
            self.events.append(Wait(branch=branch, kind=kind, duration_ms=duration_ms, at_ms=start_ms))
            self.cursors[branch] = until_ms

    def _asking(self, call: SeenCall, turn: Turn) -> SeenCall | None:
        """Return the call whose tools were run, None when nothing is known of any; of several choices one was taken."""
        if turn.before is None or not (turn.carries_tools or self._tells_in_words(turn)):
            return None
        before = self.run.calls[turn.before]
        back = (self.run.calls[number] for number in range(before.number, -1, -1))
        choices = list(takewhile(lambda x: is_same_request(x, before), back)) or [before]
        asking = [x for x in choices if x.tools]
        return max(asking, key=lambda x: (x.answer in call.path, x.number), default=self._named(call, turn))

    def _named(self, call: SeenCall, turn: Turn) -> SeenCall | None:
        """Return the call whose tools the results of a prompt are of by their ids, though others were answered since."""
        named = self.numbers.get(-1 if call.opened.answers is None else call.opened.answers)
        is_own = named is not None and self.turns[named].conversation == turn.conversation
        return self.run.calls[named] if named is not None and is_own and turn.carries_tools else None

    def _answered(self, asking: SeenCall, call: SeenCall, turn: Turn) -> list[int]:
        """Return the tools whose results a call carries: by their ids, else as many as there are results."""
        opened = call.opened
        if opened.answers == asking.opened.call and opened.results:
            return [asking.tools[place] for place in opened.results if place < len(asking.tools)]
        return list(asking.tools[: turn.carries_tools or len(asking.tools)])

    def _untold(self, asking: SeenCall, tools: Sequence[int], branch: Branch | None) -> list[int]:
        """Return the tools that the agent did not time."""
        ran = self.ran[branch] + self.placed.of_calls.get(asking.number, Counter())
        left = []
        for tool in tools:
            if ran[tool]:
                ran[tool] -= 1
            else:
                left.append(tool)
        return left

    def _tells_in_words(self, turn: Turn) -> bool:
        """Whether the client put an answer of its own wording in the history, and something behind it.

        Some clients write tool calls and their results as text; where the answer asked for tools, that is what they are.
        """
        roles = [self.run.tree[part].role for part in turn.messages[turn.kept :]]
        return len(roles) > 1 and roles[0] == "assistant" and roles[-1] != "assistant"

    def _run_tools(self, asking: SeenCall, tools: Sequence[int], call: SeenCall, branch: Branch | None) -> None:
        """Give what is left of a gap to the tools that were run in it, but for those that began agents.

        It ends where their results were first sent.
        """
        start_ms = self.cursors.get(branch, 0.0)
        end_ms = max(start_ms, call.sent_ms(asking))
        run = self._without_agents(tools, self.agents.get(branch, 0))
        for tool in run:
            self._tool(tool, branch, start_ms, round(end_ms - start_ms, 3), asking=asking, source="gap")
        if run:
            self.cursors[branch] = end_ms

    def _without_agents(self, tools: Sequence[int], agents: int) -> list[int]:
        """Return the tools that began none of the agents that have just ended; where all did, learn their names."""
        if agents >= len(tools):
            self.agent_tools.update(tools)
        left = []
        for tool in tools:
            if agents and tool in self.agent_tools:
                agents -= 1
            else:
                left.append(tool)
        return left

    def _write_messages(self, call: SeenCall, turn: Turn, branch: Branch | None) -> None:
        head = self.run.tree.node(call.head)
        leading = self.run.tree.leading_messages(call.head)
        shared = self.found.shared.of(call)
        for index in range(turn.kept, len(turn.messages)):
            part, place = turn.messages[index], index + (0 <= head.tools <= index)
            has_schemas = index == leading - 1 and head.tools >= 0
            schemas = self.found.places.part_tokens(call, head.tools) if has_schemas else 0
            parts = (part, call.path[head.tools]) if has_schemas else (part,)
            self.events.append(
                Message(
                    branch=branch,
                    conversation_id=turn.conversation,
                    role=_ROLES[self.run.tree[part].role],
                    message_index=index,
                    tokens=self.found.places.part_tokens(call, place) + schemas,
                    tokens_source=self._source(self.run.sizes.source_of(*parts)),
                    system_prompt_id=shared.id if index < leading and shared else None,
                )
            )

    def _call(self, call: SeenCall, turn: Turn, branch: Branch | None) -> Call:
        end, number = call.end, call.number
        return Call(
            branch=branch,
            call=number,
            domain=call.domain,
            conversation_id=turn.conversation,
            message_index=len(turn.messages),
            prompt_tokens=self.found.places.prompt_tokens[number],
            prompt_tokens_source=self._source(call.prompt_source),
            completion_tokens=call.completion_tokens,
            completion_tokens_source=self._source(call.completion_source),
            reasoning_tokens=call.reasoning_tokens,
            prefix=self.found.edges[number].prefix(self.found.places.prompt_tokens[number]),
            cached_tokens=None if end is None else end.cached_tokens,
            media_tokens=None if end is None else end.media_tokens,
            tool_calls=tuple(f"tool{tool:02}" for tool in call.tools),
            finish_reason=call.finish_reason,
            request=self._request(call.opened.request),
            at_ms=call.start_ms,
            ttft_ms=None if end is None else end.ttft_ms,
            duration_ms=None if end is None else max(0.0, round(end.at_ms - call.start_ms, 3)),
            attempts=call.attempts if call.attempts > 1 else None,
            aux=turn.link.is_aside,
            link=turn.link.evidence,
            rivals=turn.link.rivals or None,
        )

    def _request(self, request: int | None) -> int | None:
        """Return the number of a request of several calls; the journal counts those of one call too."""
        return None if request is None else self._requests.setdefault(request, len(self._requests))

    def _source(self, source: TokenSource) -> TokenSource | None:
        return None if source == self.token_source else source


def _ran_beside(region: Region, asking: SeenCall | None) -> bool:
    """Tell whether a call asked for tools while a region ran of which only that is known: it began none of it."""
    return asking is not None and region.evidence in ("time", "prefix") and asking.start_ms >= region.start_ms
