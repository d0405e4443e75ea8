"""Who did what beside whom: lines, forks and joins by how spans stand within one another and overlap."""

from __future__ import annotations

from otlp_spans import Span, agent, chat, span, tool, trace_of

from rotoscope.traces.model import Branch, Call, ParallelEnd, ParallelStart, ToolCall, Trace, Wait


def branches(trace: Trace) -> dict[int, Branch | None]:
    """Return the branch of each call by the length of its prompt."""
    return {call.prompt_tokens: call.branch for call in trace.calls()}


def forks(trace: Trace) -> list[tuple[Branch | None, int]]:
    starts = [event for event in trace.events if isinstance(event, ParallelStart)]
    assert all(event.evidence == "client" for event in starts)
    return [(event.branch, event.num_branches) for event in starts]


def joins(trace: Trace) -> list[int]:
    return [event.region for event in trace.events if isinstance(event, ParallelEnd)]


def step(*, at: tuple[float, float], parent: Span) -> Span:
    return span({"openinference.span.kind": "CHAIN"}, at=at, parent=parent)


def test_calls_of_one_agent_are_on_the_root() -> None:
    top = agent(at=(0, 9))
    trace = trace_of(top, *(chat(100 * n, 1, at=(n, n + 0.5), parent=top) for n in (1, 2)))

    assert branches(trace) == {100: None, 200: None}
    assert forks(trace) == []


def test_an_agent_within_an_agent_is_a_branch_that_is_joined() -> None:
    top = agent(at=(0, 9))
    runs_it = tool("ask", at=(2, 5), parent=top)
    inner = agent(at=(2, 5), parent=runs_it)
    trace = trace_of(
        *(top, runs_it, inner),
        chat(100, 1, at=(0, 1), parent=top),
        chat(50, 1, at=(2, 3), parent=inner),
        chat(60, 1, at=(4, 5), parent=inner),
        chat(200, 1, at=(6, 7), parent=top),
    )

    assert branches(trace) == {100: None, 50: (0, 0), 60: (0, 0), 200: None}
    assert forks(trace) == [(None, 1)]
    assert joins(trace) == [0]
    assert [event for event in trace.events if isinstance(event, ToolCall)] == []


def test_an_agent_within_one_that_calls_nothing_itself_is_that_one() -> None:
    outer = agent(at=(0, 9))
    inner = agent(at=(1, 8), parent=step(at=(0, 9), parent=outer))

    trace = trace_of(outer, inner, *(chat(100 * n, 1, at=(n, n + 0.5), parent=inner) for n in (1, 2)))

    assert branches(trace) == {100: None, 200: None}


def test_agents_at_the_same_time_are_branches_of_one_region() -> None:
    top = agent(at=(0, 9))
    inner = [agent(at=(2, 4 + n), parent=top) for n in range(3)]
    trace = trace_of(
        *(top, *inner),
        chat(100, 1, at=(0, 1), parent=top),
        *(chat(50 + n, 1, at=(2 + 0.1 * n, 4 + n), parent=one) for n, one in enumerate(inner)),
        chat(200, 1, at=(7, 8), parent=top),
    )

    assert branches(trace) == {100: None, 50: (0, 0), 51: (0, 1), 52: (0, 2), 200: None}
    assert (forks(trace), joins(trace)) == ([(None, 3)], [0])


def test_steps_at_the_same_time_are_branches_without_any_agent() -> None:
    top = step(at=(0, 9), parent=agent(at=(0, 9)))
    sides = [step(at=(1, 8), parent=top) for _ in range(2)]
    calls = [chat(100 * n + m, 1, at=(2 * n + 0.1 * m, 2 * n + 1), parent=sides[m]) for n in (1, 2) for m in (0, 1)]

    trace = trace_of(top, *sides, *calls)

    assert branches(trace) == {100: (0, 0), 101: (0, 1), 200: (0, 0), 201: (0, 1)}
    assert joins(trace) == [0]


def test_steps_one_after_another_are_on_the_line_of_their_agent() -> None:
    top = agent(at=(0, 9))
    steps = [step(at=(n, n + 0.5), parent=top) for n in (1, 2)]

    trace = trace_of(top, *steps, *(chat(100 * n, 1, at=(n, n + 0.5), parent=steps[n - 1]) for n in (1, 2)))

    assert branches(trace) == {100: None, 200: None}


def test_agents_in_sequence_are_two_regions() -> None:
    top = agent(at=(0, 9))
    inner = [agent(at=(n, n + 1), parent=top) for n in (2, 4)]
    trace = trace_of(
        *(top, *inner),
        chat(100, 1, at=(0, 1), parent=top),
        *(chat(50 + n, 1, at=(2 + 2 * n, 3 + 2 * n), parent=one) for n, one in enumerate(inner)),
        chat(200, 1, at=(7, 8), parent=top),
    )

    assert branches(trace) == {100: None, 50: (0, 0), 51: (1, 0), 200: None}
    assert joins(trace) == [0, 1]


def test_an_agent_that_outlives_the_span_that_began_it_is_not_joined() -> None:
    top = agent(at=(0, 3))
    late = agent(at=(2, 8), parent=top)

    trace = trace_of(top, late, chat(100, 1, at=(0, 1), parent=top), chat(50, 1, at=(2, 8), parent=late))

    assert forks(trace) == [(None, 1)]
    assert joins(trace) == []


def test_agents_nest() -> None:
    top = agent(at=(0, 20))
    middle = agent(at=(2, 12), parent=top)
    inner = agent(at=(4, 8), parent=middle)
    trace = trace_of(
        *(top, middle, inner),
        chat(100, 1, at=(0, 1), parent=top),
        chat(50, 1, at=(2, 3), parent=middle),
        chat(20, 1, at=(4, 8), parent=inner),
        chat(60, 1, at=(9, 12), parent=middle),
        chat(200, 1, at=(13, 14), parent=top),
    )

    assert branches(trace) == {100: None, 50: (0, 0), 20: (1, 0), 60: (0, 0), 200: None}
    assert forks(trace) == [(None, 1), ((0, 0), 1)]
    assert sorted(joins(trace)) == [0, 1]


def test_tools_at_the_same_time_keep_their_times() -> None:
    top = agent(at=(0, 9))
    trace = trace_of(
        top,
        chat(100, 1, at=(0, 1), parent=top),
        tool("a", at=(1.5, 3), parent=top),
        tool("b", at=(1.6, 2), parent=top),
        chat(200, 1, at=(4, 5), parent=top),
    )

    tools = {event.at_ms: event.duration_ms for event in trace.events if isinstance(event, ToolCall)}
    assert tools == {1500.0: 1500.0, 1600.0: 400.0}
    waits = [event for event in trace.events if isinstance(event, Wait)]
    assert [(wait.kind, wait.at_ms, wait.duration_ms) for wait in waits] == [("think", 3000.0, 1000.0)]


def test_the_exclusive_time_of_a_tool_that_runs_an_agent_is_none_of_a_tool() -> None:
    top = agent(at=(0, 9))
    runs_it = tool("ask", at=(1, 8), parent=top)
    inner = agent(at=(3, 5), parent=runs_it)
    trace = trace_of(
        *(top, runs_it, inner),
        chat(100, 1, at=(0, 1), parent=top),
        chat(50, 1, at=(3, 5), parent=inner),
        chat(200, 1, at=(8, 9), parent=top),
    )

    assert [event for event in trace.events if isinstance(event, ToolCall)] == []
    assert isinstance(trace.events[-1], Call)
    assert sum(event.duration_ms for event in trace.events if isinstance(event, Wait)) == 5000.0


def test_what_a_tool_ran_is_not_told_twice() -> None:
    """As a client of MCP has a span for the tool that it calls."""
    top = agent(at=(0, 9))
    outer = tool("a", at=(1.5, 3), parent=top)
    between = step(at=(1.5, 3), parent=outer)
    inner = tool("tools/call a", at=(1.6, 2.9), parent=between)
    calls = [chat(100 * n, 1, at=(3 * n - 3, 3 * n - 2), parent=top) for n in (1, 2)]

    trace = trace_of(top, outer, between, inner, *calls)

    assert [event.duration_ms for event in trace.events if isinstance(event, ToolCall)] == [1500.0]


def test_a_tool_that_makes_calls_has_a_conversation_of_its_own() -> None:
    top = agent(at=(0, 9))
    asks = tool("summarise", at=(2, 5), parent=top)
    first, second, third = trace_of(
        *(top, asks),
        chat(100, 10, at=(0, 1), parent=top),
        chat(5000, 10, at=(2, 5), parent=asks),
        chat(200, 10, at=(6, 7), parent=top),
    ).calls()

    assert (first.prefix.of, second.prefix.of, third.prefix.of) == (None, None, 0)
    assert {first.branch, second.branch, third.branch} == {None}
