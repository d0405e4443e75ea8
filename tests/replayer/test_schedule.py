from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import traces

from rotoscope.replayer.schedule import NO_GAPS, Gaps, Schedule, Step, gap_kind, plan_session
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Prefix, Trace, TraceError, UnusableInput
from rotoscope.traces.model import (
    NO_PREFIX,
    Branch,
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    TraceEvent,
    Wait,
)


def grown(call: int, of: int, tokens: int, **fields: Any) -> Call:
    return make_call(call, isl=tokens + 10, prefix=Prefix(of, tokens, "ids"), **fields)


def tool(number: int, ms: float, **fields: Any) -> ToolCall:
    return ToolCall(tool_call_id=f"t{number}", tool_name="tool0", duration_ms=ms, **fields)


def started(schedule: Schedule, durations_s: dict[int, float], tokens: dict[int, int] | None = None) -> list[float]:
    """Perform the steps on a clock that jumps, each as soon as it may; outputs arrive evenly over their calls."""
    starts: list[float] = []
    ends: list[float] = []
    calls = {step.call: index for index, step in enumerate(schedule.steps)}
    for index, step in enumerate(schedule.steps):
        assert all(earlier < index for earlier in step.after)
        waits = [ends[earlier] for earlier in step.after]
        for call, count in step.delivered:
            assert calls[call] < index
            waits.append(starts[calls[call]] + durations_s[call] * count / (tokens or {})[call])
        starts.append(max(waits, default=0.0))
        ends.append(starts[-1] + (durations_s[step.call] if step.call is not None else step.seconds))
    return starts


def starts_of_calls(trace: Trace, gaps: Gaps | None = None, call_s: float = 1.0) -> dict[int, float]:
    """Perform a trace all of whose calls take equally long."""
    schedule = plan_session(trace, gaps)
    durations = {call.call: call_s for call in trace.calls()}
    tokens = {call.call: call.completion_tokens for call in trace.calls()}
    starts = started(schedule, durations, tokens)
    return {s.call: start for s, start in zip(schedule.steps, starts, strict=True) if s.call is not None}


def sleeps(trace: Trace, gaps: Gaps | None = None) -> list[float]:
    return [step.seconds for step in plan_session(trace, gaps).steps if step.kind in ("tool", "wait")]


def test_a_conversation_is_a_line_of_calls_and_sleeps() -> None:
    schedule = plan_session(make_trace(turns=2, tool_ms=50.0))

    assert schedule.steps == (
        Step("call", None, after=(), call=0),
        Step("tool", None, after=(0,), seconds=0.05),
        Step("call", None, after=(1,), call=1),
    )


def test_an_empty_trace_has_no_steps() -> None:
    assert plan_session(trace_of()).steps == ()


def test_children_start_after_what_preceded_the_fork_and_the_join_waits_for_all() -> None:
    trace = trace_of(
        make_call(0),
        ParallelStart(region=0, num_branches=2),
        make_call(1, branch=(0, 0)),
        make_call(2, branch=(0, 1)),
        make_call(3, branch=(0, 1)),
        ParallelEnd(region=0),
        make_call(4),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1, 2: 1, 3: 2, 4: 3}


def test_a_parent_goes_on_inside_its_region() -> None:
    trace = trace_of(
        make_call(0),
        ParallelStart(region=0, num_branches=1),
        make_call(1),
        make_call(2, branch=(0, 0)),
        make_call(3),
        make_call(4),
        ParallelEnd(region=0),
        make_call(5),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1, 2: 1, 3: 2, 4: 3, 5: 4}


def test_regions_of_one_parent_may_overlap() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0),
        ParallelStart(region=1, num_branches=1),
        make_call(1, branch=(0, 0)),
        make_call(2, branch=(0, 0)),
        make_call(3, branch=(1, 0)),
        ParallelEnd(region=0),
        make_call(4),
        ParallelEnd(region=1),
        make_call(5),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 3}


def test_a_region_that_is_never_joined_holds_up_nobody() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0, branch=(0, 0)),
        make_call(1, branch=(0, 0)),
        make_call(2),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1, 2: 0}


def test_a_region_inside_a_child_is_joined_only_by_its_own_join() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        ParallelStart(region=1, num_branches=1, branch=(0, 0)),
        make_call(0, branch=(1, 0)),
        make_call(1, branch=(1, 0)),
        make_call(2, branch=(0, 0)),
        ParallelEnd(region=0),
        make_call(3),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_a_join_of_branches_without_events_waits_for_what_preceded_the_fork() -> None:
    trace = trace_of(
        make_call(0),
        ParallelStart(region=0, num_branches=3),
        ParallelEnd(region=0),
        make_call(1),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1}


def test_choices_of_one_request_start_together_and_what_follows_waits_for_all() -> None:
    choices = [make_call(1, request=0), grown(2, 1, 100, request=0), grown(3, 1, 100, request=0)]
    trace = trace_of(make_call(0), tool(0, 500.0), *choices, make_call(4, request=1), make_call(5))
    schedule = plan_session(trace)
    calls = {step.call: index for index, step in enumerate(schedule.steps)}

    assert starts_of_calls(trace) == {0: 0.0, 1: 1.5, 2: 1.5, 3: 1.5, 4: 2.5, 5: 3.5}
    assert schedule.steps[calls[4]].after == (calls[1], calls[2], calls[3])


def test_a_choice_that_takes_the_output_of_another_waits_for_it() -> None:
    trace = trace_of(make_call(0, request=0), grown(1, 0, 110, request=0))

    assert starts_of_calls(trace) == {0: 0.0, 1: 1.0}


def test_a_cap_limits_the_gap_behind_any_of_several_choices() -> None:
    times: dict[str, Any] = {"at_ms": 0.0, "duration_ms": 1000.0, "request": 0}
    asked = tool(0, 800.0, call=0, at_ms=1000.0)
    wait = Wait(kind="think", duration_ms=400.0)
    trace = trace_of(make_call(0, **times), grown(1, 0, 100, **times), asked, wait, make_call(2))

    assert sleeps(trace, Gaps(cap_s=1.0)) == [0.8, pytest.approx(0.2)]


def test_a_call_waits_for_an_output_in_its_prompt_that_another_branch_brings() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0, branch=(0, 0)),
        grown(1, of=0, tokens=101),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1}


def test_a_call_waits_for_nobody_whose_prompt_alone_it_shares() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0, branch=(0, 0)),
        grown(1, of=0, tokens=100),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 0}


def test_a_call_waits_for_an_output_that_it_takes_through_the_prompt_of_another() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, branch=(0, 0)),
        grown(1, of=0, tokens=120, branch=(0, 1)),
        grown(2, of=1, tokens=125),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1, 2: 1}


def test_a_call_sent_before_another_ended_waits_for_the_tokens_it_takes() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0, branch=(0, 0), at_ms=0.0, duration_ms=100.0),
        grown(1, of=0, tokens=105, at_ms=40.0),
    )

    assert plan_session(trace).steps[1].delivered == ((0, 5),)
    assert starts_of_calls(trace) == {0: 0, 1: 0.25}


def test_a_call_sent_when_another_had_ended_waits_for_its_end() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, branch=(0, 0), at_ms=0.0, duration_ms=100.0),
        grown(1, of=0, tokens=105, branch=(0, 1), at_ms=40.0, duration_ms=10.0),
        grown(2, of=1, tokens=115, at_ms=100.0),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 0.25, 2: 1}


def test_a_call_waits_for_the_end_of_those_whose_followers_did_not() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=3),
        make_call(0, branch=(0, 0), at_ms=0.0, duration_ms=100.0),
        grown(1, of=0, tokens=105, branch=(0, 1), at_ms=40.0, duration_ms=10.0),
        grown(2, of=1, tokens=120, branch=(0, 2), at_ms=60.0, duration_ms=10.0),
        grown(3, of=2, tokens=135, at_ms=100.0),
    )
    tokens = {call.call: call.completion_tokens for call in trace.calls()}
    schedule = plan_session(trace)

    starts = started(schedule, {0: 20.0, 1: 1.0, 2: 1.0, 3: 1.0}, tokens)

    assert [step.call for step in schedule.steps] == [0, 1, 2, 3]
    assert [step.delivered for step in schedule.steps] == [(), ((0, 5),), (), ()]
    assert starts == [0.0, 5.0, 6.0, 20.0]


def test_a_reference_through_a_call_whose_output_it_does_not_reach_waits_for_nobody() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, branch=(0, 0)),
        grown(1, of=0, tokens=120, branch=(0, 1)),
        grown(2, of=1, tokens=100),
    )

    assert starts_of_calls(trace) == {0: 0, 1: 1, 2: 0}


def test_chains_of_references_are_not_repeated() -> None:
    trace = make_trace(turns=200)

    assert sum(len(step.after) + len(step.delivered) for step in plan_session(trace).steps) == 2 * 199


def test_many_children_do_not_repeat_what_they_wait_for() -> None:
    width = 50
    asking = make_call(0, at_ms=0.0, duration_ms=10.0)
    tools = [tool(number, 5.0, call=0, at_ms=10.0) for number in range(width)]
    children = [make_call(1 + child, branch=(0, child)) for child in range(width)]
    trace = trace_of(asking, *tools, ParallelStart(region=0, num_branches=width), *children, ParallelEnd(region=0))

    assert sum(len(step.after) for step in plan_session(trace).steps) <= 4 * width + 1


def test_tools_of_one_answer_overlap_as_recorded_and_the_next_step_waits_for_all() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        tool(0, 500.0, call=0, at_ms=150.0),
        tool(1, 200.0, call=0, at_ms=150.0),
        Wait(kind="think", duration_ms=250.0),
        make_call(1),
    )

    schedule = plan_session(trace)

    assert [step.after for step in schedule.steps] == [(), (0,), (0,), (1, 2), (3,)]
    assert sleeps(trace) == pytest.approx([0.55, 0.25, 0.25])
    assert starts_of_calls(trace)[1] == pytest.approx(1.8)


@pytest.mark.parametrize("known", [{}, {"call": 0}])
def test_tools_without_a_known_place_run_one_after_another(known: dict[str, float]) -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0), tool(0, 500.0, **known), tool(1, 200.0, **known), make_call(1)
    )

    assert starts_of_calls(trace)[1] == pytest.approx(1.7)


def test_tools_that_were_recorded_beside_one_another_run_so_whoever_asked_for_them() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        tool(0, 500.0, at_ms=200.0),
        tool(1, 300.0, at_ms=600.0),
        tool(2, 200.0, at_ms=900.0),
        make_call(1),
    )

    assert sleeps(trace) == pytest.approx([0.5, 0.7, 0.2])
    assert starts_of_calls(trace)[1] == pytest.approx(1.0 + 0.7 + 0.2)


def test_a_tool_that_ended_before_its_answer_did_takes_no_time() -> None:
    trace = trace_of(make_call(0, at_ms=0.0, duration_ms=100.0), tool(0, 20.0, call=0, at_ms=50.0))

    assert sleeps(trace) == [0.0]


def test_a_tool_in_a_child_starts_with_its_answer_before_the_fork() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        ParallelStart(region=0, num_branches=1),
        tool(0, 500.0, call=0, at_ms=200.0, branch=(0, 0)),
        make_call(1, branch=(0, 0)),
    )

    assert starts_of_calls(trace)[1] == pytest.approx(1.6)


def test_a_tool_does_not_start_before_its_branch() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0, branch=(0, 0), at_ms=0.0, duration_ms=100.0),
        make_call(1),
        make_call(2),
        ParallelStart(region=1, num_branches=1),
        tool(0, 500.0, call=0, at_ms=100.0, branch=(1, 0)),
        make_call(3, branch=(1, 0)),
    )

    assert starts_of_calls(trace)[3] == pytest.approx(2.5)


def test_what_is_no_call_tool_or_wait_takes_no_time() -> None:
    trace = trace_of(
        Message(conversation_id=0, role="user", message_index=0, tokens=5),
        Embedding(prompt_tokens=5, at_ms=0.0, duration_ms=500.0),
        DropKvCache(),
        make_call(0),
    )

    assert plan_session(trace).steps == (Step("call", None, after=(), call=0),)


def waiting(*durations_ms: float) -> Trace:
    return trace_of(make_call(0), *(Wait(kind="human", duration_ms=ms) for ms in durations_ms), make_call(1))


def test_gaps_are_scaled() -> None:
    assert sleeps(waiting(1000.0, 500.0), Gaps(scale=2.0)) == [2.0, 1.0]


def test_a_cap_limits_the_whole_gap_between_an_answer_and_the_next_request() -> None:
    assert sleeps(waiting(1000.0, 500.0, 200.0), Gaps(cap_s=1.2)) == pytest.approx([1.0, 0.2, 0.0])


def test_a_cap_limits_a_tool_and_what_follows_it_together() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        tool(0, 1000.0, call=0, at_ms=100.0),
        Wait(kind="agent", duration_ms=500.0),
    )

    assert sleeps(trace, Gaps(cap_s=1.2)) == pytest.approx([1.0, 0.2])


def test_a_cap_counts_no_tool_of_an_earlier_answer() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        make_call(1),
        tool(0, 1000.0, call=0, at_ms=100.0),
        Wait(kind="agent", duration_ms=500.0),
    )

    assert sleeps(trace, Gaps(cap_s=1.2)) == pytest.approx([1.0, 0.5])


def test_a_cap_limits_scaled_gaps() -> None:
    assert sleeps(waiting(1000.0), Gaps(scale=0.5, cap_s=0.4)) == [0.4]


def test_without_gaps_no_sleep_lasts() -> None:
    assert sleeps(waiting(1000.0, 500.0), NO_GAPS) == [0.0, 0.0]


def test_a_cap_counts_anew_after_a_join() -> None:
    pause = Wait(kind="think", duration_ms=1000.0)
    region = (ParallelStart(region=0, num_branches=1), ParallelEnd(region=0))

    assert sleeps(trace_of(make_call(0), pause, *region, pause), Gaps(cap_s=1.0)) == [1.0, 1.0]


def test_a_cap_counts_on_in_a_child() -> None:
    pause = Wait(kind="think", duration_ms=1000.0)
    trace = trace_of(make_call(0), pause, ParallelStart(region=0, num_branches=1), replace(pause, branch=(0, 0)))

    assert sleeps(trace, Gaps(cap_s=1.0)) == [1.0, 0.0]


def test_with_gaps_of_tools_waits_take_no_time_and_tools_their_own() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        Wait(kind="think", duration_ms=250.0),
        tool(0, 500.0, call=0, at_ms=400.0),
        tool(1, 100.0),
        Wait(kind="human", duration_ms=9000.0),
        make_call(1),
    )

    assert sleeps(trace, Gaps("tools")) == pytest.approx([0.0, 0.5, 0.1, 0.0])
    assert sleeps(trace, Gaps("tools", scale=2.0, cap_s=0.7)) == pytest.approx([0.0, 0.7, 0.0, 0.0])


@pytest.mark.parametrize("values", [{"scale": 0.5}, {"cap_s": 1.0}])
def test_no_gaps_are_neither_scaled_nor_cut(values: dict[str, Any]) -> None:
    with pytest.raises(UnusableInput, match="not both"):
        replace(NO_GAPS, **values)


@pytest.mark.parametrize("kind", ["recorded", "tools", "none"])
def test_the_kinds_of_gaps_have_names(kind: str) -> None:
    assert gap_kind(kind) == kind
    with pytest.raises(UnusableInput, match="choose one of recorded, tools, none"):
        gap_kind(f"{kind}s")


@pytest.mark.parametrize(
    "values",
    [{"scale": -1.0}, {"scale": float("nan")}, {"cap_s": -0.1}, {"cap_s": float("nan")}, {"cap_s": float("inf")}],
)
def test_gaps_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UnusableInput, match="expected a gap"):
        Gaps(**values)


def test_steps_that_wait_for_one_another_are_refused() -> None:
    trace = trace_of(grown(1, of=0, tokens=110), make_call(0))

    with pytest.raises(TraceError, match=r"event 0: call 1 waits, through others, for itself"):
        plan_session(trace)


def test_a_step_stands_behind_the_call_whose_tokens_it_waits_for() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        grown(1, of=0, tokens=105, at_ms=40.0),
        make_call(0, branch=(0, 0), at_ms=0.0, duration_ms=100.0),
    )

    assert [step.call for step in plan_session(trace).steps] == [0, 1]


def test_waiting_for_tokens_of_a_call_that_comes_later_on_the_branch_is_refused() -> None:
    trace = trace_of(grown(1, of=0, tokens=105, at_ms=40.0), make_call(0, at_ms=0.0, duration_ms=100.0))

    with pytest.raises(TraceError, match="call 1 waits, through others, for itself"):
        plan_session(trace)


def test_a_reference_to_a_call_that_is_not_there_is_refused() -> None:
    trace = replace(trace_of(), events=(grown(1, of=0, tokens=110),))

    with pytest.raises(TraceError, match="expected a call before call 1, found 0"):
        plan_session(trace)


@pytest.mark.parametrize("event", [ParallelEnd(region=3), make_call(0, branch=(3, 0))])
def test_a_region_that_never_started_is_refused(event: TraceEvent) -> None:
    with pytest.raises(TraceError, match="region that has started"):
        plan_session(replace(trace_of(), events=(event,)))


@dataclass
class Expected:
    """When each event starts by R10 read literally: every wait is followed, none is left out as implied."""

    trace: Trace
    durations_s: dict[int, float]
    starts: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = self.trace.events
        self.index = {event.call: i for i, event in enumerate(self.events) if isinstance(event, Call)}
        self.forks = {event.region: i for i, event in enumerate(self.events) if isinstance(event, ParallelStart)}

    def start(self, i: int) -> float:
        if i not in self.starts:
            self.starts[i] = max(self._waits(i), default=0.0)
        return self.starts[i]

    def end(self, i: int) -> float:
        event = self.events[i]
        asking = self._asking(i)
        if isinstance(event, Call):
            return self.start(i) + self.durations_s[event.call]
        if isinstance(event, ToolCall) and asking is not None:
            assert event.at_ms is not None
            return self.start(i) + max(event.at_ms + event.duration_ms - self._recorded_end_ms(asking), 0.0) / 1000
        if isinstance(event, ToolCall | Wait):
            return self.start(i) + (self._later_ms(i) + event.duration_ms) / 1000
        return self.start(i)

    def _waits(self, i: int) -> list[float]:
        event = self.events[i]
        asking = self._asking(i)
        if asking is not None:
            apart = not self._on_the_way(asking, i)
            return [self.end(asking)] + (self._before_branch(event.branch) if apart else [])
        if (first := self._group(i)[0]) != i:
            return self._waits(first)
        waits = self._before(i, event.branch)
        if isinstance(event, Call):
            waits += self._outputs(event)
        if isinstance(event, ParallelEnd):
            fork = self.events[self.forks[event.region]]
            assert isinstance(fork, ParallelStart)
            for child in range(fork.num_branches):
                waits += self._before(i, (event.region, child))
        return waits

    def _before(self, i: int, branch: Branch | None) -> list[float]:
        """The ends of what a step of the branch at event i comes after."""
        ends = []
        for j in reversed(range(i)):
            event = self.events[j]
            if event.branch == branch and isinstance(event, Call | ToolCall | Wait | ParallelEnd):
                ends.append(self.end(j))
                if self._asking(j) is None and self._group(j)[0] == j:
                    return ends
        return ends + self._before_branch(branch)

    def _group(self, i: int) -> list[int]:
        """The tools that were recorded as running beside this one, from the first one up to it."""
        event = self.events[i]
        if not self._is_in_order(i):
            return [i]
        timed = Call | ToolCall | Wait | ParallelStart | ParallelEnd
        before = [j for j in range(i) if self.events[j].branch == event.branch and isinstance(self.events[j], timed)]
        group = self._group(before[-1]) if before and self._is_in_order(before[-1]) else []
        ends_ms = max((self._at_ms(j) + self._tool(j).duration_ms for j in group), default=0.0)
        return [*group, i] if group and self._at_ms(group[0]) <= self._at_ms(i) < ends_ms else [i]

    def _is_in_order(self, i: int) -> bool:
        event = self.events[i]
        return isinstance(event, ToolCall) and event.at_ms is not None and self._asking(i) is None

    def _later_ms(self, i: int) -> float:
        return self._at_ms(i) - self._at_ms(self._group(i)[0]) if self._is_in_order(i) else 0.0

    def _at_ms(self, i: int) -> float:
        return self._tool(i).at_ms or 0.0

    def _tool(self, i: int) -> ToolCall:
        event = self.events[i]
        assert isinstance(event, ToolCall)
        return event

    def _before_branch(self, branch: Branch | None) -> list[float]:
        if branch is None:
            return []
        fork = self.forks[branch[0]]
        return self._before(fork, self.events[fork].branch)

    def _outputs(self, call: Call) -> list[float]:
        waits = []
        of, tokens = call.prefix.of, call.prefix.tokens
        while isinstance(of, int):
            i = self.index[of]
            other = self.events[i]
            assert isinstance(other, Call)
            taken = tokens - other.prompt_tokens
            if taken > 0:
                overlapped = None not in (call.at_ms, other.at_ms, other.duration_ms) and (
                    (call.at_ms or 0) < self._recorded_end_ms(i)
                )
                part = self.durations_s[of] * taken / other.completion_tokens
                waits.append(self.start(i) + part if overlapped else self.end(i))
            of, tokens = other.prefix.of, min(tokens, other.prefix.tokens)
        return waits

    def _asking(self, i: int) -> int | None:
        """The answer from which a tool's time counts, None for all that simply follows what precedes it."""
        event = self.events[i]
        if not isinstance(event, ToolCall) or event.at_ms is None or event.call is None:
            return None
        asking = self.index[event.call]
        call = self.events[asking]
        assert isinstance(call, Call)
        known = call.at_ms is not None and call.duration_ms is not None and asking < i
        return asking if known else None

    def _recorded_end_ms(self, i: int) -> float:
        call = self.events[i]
        assert isinstance(call, Call)
        assert call.at_ms is not None
        assert call.duration_ms is not None
        return call.at_ms + call.duration_ms

    def _on_the_way(self, asking: int, i: int) -> bool:
        branch, limit = self.events[i].branch, i
        while branch is not None and self.events[asking].branch != branch:
            limit = self.forks[branch[0]]
            branch = self.events[limit].branch
        return self.events[asking].branch == branch and asking < limit


@st.composite
def chained(draw: st.DrawFn) -> Trace:
    """Draw calls on branches of their own that take one another's outputs, often while these are still delivered."""
    calls: list[Call] = []
    at_ms = 0.0
    for number in range(draw(st.integers(2, 6))):
        prefix = NO_PREFIX
        if calls:
            of = draw(st.sampled_from(calls))
            prefix = Prefix(of.call, draw(st.integers(of.prefix.tokens + 1, of.stream_tokens)), "ids")
        at_ms += draw(st.sampled_from([0, 5, 20]))
        duration_ms = float(draw(st.sampled_from([5, 30, 80])))
        place = {"branch": (0, number), "at_ms": at_ms, "duration_ms": duration_ms}
        calls.append(make_call(number, isl=prefix.tokens + 1, osl=4, prefix=prefix, **place))
    return trace_of(ParallelStart(region=0, num_branches=len(calls)), *calls)


@st.composite
def reordered(draw: st.DrawFn) -> Trace:
    """Draw a trace in which calls of different branches do not stand in the order of their numbers."""
    trace = draw(traces(max_events=20))
    left = list(trace.events)
    events: list[TraceEvent] = []
    while left:
        free = [i for i, event in enumerate(left) if not any(_stays_before(other, event) for other in left[:i])]
        events.append(left.pop(draw(st.sampled_from(free))))
    return replace(trace, events=tuple(events))


def _stays_before(one: TraceEvent, other: TraceEvent) -> bool:
    fixed = ParallelStart | ParallelEnd | ToolCall
    return one.branch == other.branch or isinstance(one, fixed) or isinstance(other, fixed)


@settings(max_examples=80)
@given(traces(max_events=20) | reordered() | chained(), st.data())
def test_every_step_starts_exactly_when_what_it_waits_for_is_there(trace: Trace, data: st.DataObject) -> None:
    durations = {call.call: float(data.draw(st.integers(0, 8))) for call in trace.calls()}
    expected = Expected(trace, durations)
    schedule = plan_session(trace)

    starts = started(schedule, durations, {call.call: call.completion_tokens for call in trace.calls()})

    calls = {step.call: start for step, start in zip(schedule.steps, starts, strict=True) if step.call is not None}
    assert calls == pytest.approx({call: expected.start(i) for call, i in expected.index.items()})
    ends = [starts[i] + step.seconds for i, step in enumerate(schedule.steps) if step.kind in ("tool", "wait")]
    timed = [i for i, event in enumerate(trace.events) if isinstance(event, ToolCall | Wait)]
    assert sorted(ends) == pytest.approx(sorted(expected.end(i) for i in timed))
