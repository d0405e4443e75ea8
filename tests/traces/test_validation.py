from __future__ import annotations

from collections.abc import Sequence

import pytest

from rotoscope.testing import make_call, make_trace
from rotoscope.traces import (
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceError,
    TraceEvent,
    validate,
)

FORK = ParallelStart(region=0, num_branches=2)
INNER_FORK = ParallelStart(region=1, num_branches=1, branch=(0, 0))
JOIN = ParallelEnd(region=0)
SYSTEM = SharedPrefix("s0", "system", 40)


def trace(*events: TraceEvent, shared: Sequence[SharedPrefix] = (), granularity: int = 1) -> Trace:
    return Trace(
        trace_id="00000000",
        campaign="11111111",
        token_source="usage",
        prefix_granularity=granularity,
        shared_prefixes=tuple(shared),
        events=events,
    )


def tool(number: int = 0, call: int | None = None) -> ToolCall:
    return ToolCall(tool_call_id=f"t{number}", tool_name="tool0", duration_ms=1.0, call=call)


def begins(of: int | str | None, tokens: int, low: int | None = None, high: int | None = None) -> Prefix:
    return Prefix(of, tokens, "text", low, high)


def refusal(broken: Trace) -> TraceError:
    with pytest.raises(TraceError) as caught:
        validate(broken)
    return caught.value


def test_a_trace_that_keeps_all_rules_is_passed() -> None:
    validate(make_trace(turns=3))
    validate(trace(FORK, INNER_FORK, ParallelEnd(region=1, branch=(0, 0)), JOIN))


@pytest.mark.parametrize(
    ("events", "event", "field", "message"),
    [
        ([FORK, FORK], 1, "region", "a number of its own, found 0"),
        ([JOIN], 0, "region", "join without fork"),
        ([FORK, JOIN, JOIN], 2, "region", "one join, found a second of region 0"),
        ([FORK, INNER_FORK, ParallelEnd(region=1)], 2, "branch", "the branch that region 1 started on"),
        ([FORK, make_call(branch=(0, 2))], 1, "branch", "one of the 2 branches of region 0"),
        ([make_call(branch=(0, 0)), FORK], 0, "branch", "a branch of a region that has started"),
        ([FORK, JOIN, make_call(branch=(0, 0))], 2, "branch", "no event of branch [0, 0] after its join"),
        ([FORK, INNER_FORK, JOIN, make_call(branch=(1, 0))], 3, "branch", "no event of branch [0, 0] after its join"),
    ],
)
def test_forks_and_joins_come_in_their_order(events: list[TraceEvent], event: int, field: str, message: str) -> None:
    error = refusal(trace(*events))

    assert (error.event, error.field) == (event, field)
    assert message in str(error)


@pytest.mark.parametrize(
    ("events", "event", "field", "message"),
    [
        ([make_call(0), tool(), tool()], 2, "tool_call_id", "an id of its own, found 't0'"),
        ([make_call(0), tool(call=1)], 1, "call", "the number of a call in this trace, found 1"),
        ([make_call(0), make_call(0)], 1, "call", "a number of its own, found 0, which event 0 has"),
        ([make_call(0, osl=5, reasoning_tokens=6)], 0, "reasoning_tokens", "at most the 5 completion_tokens"),
        (
            [Message(conversation_id=0, role="system", message_index=0, tokens=1, system_prompt_id="s9")],
            *(0, "system_prompt_id", "the id of a shared prefix, found 's9'"),
        ),
    ],
)
def test_numbers_and_ids_name_one_thing_that_is_there(
    events: list[TraceEvent], event: int, field: str, message: str
) -> None:
    error = refusal(trace(*events))

    assert (error.event, error.field) == (event, field)
    assert message in str(error)


@pytest.mark.parametrize(
    ("prefix", "field", "message"),
    [
        (begins(0, 121), "prefix.tokens", "at most the 120 tokens of the stream 0"),
        (begins(0, 131), "prefix.tokens", "at most the 130 prompt_tokens"),
        (begins(0, 120, high=131), "prefix.high", "at most the 130 prompt_tokens"),
        (begins(0, 100, low=101), "prefix", "low <= tokens <= high"),
        (begins(0, 100, high=99), "prefix", "low <= tokens <= high"),
        (begins(0, 0), "prefix.of", "null exactly when tokens is 0"),
        (begins(None, 10), "prefix.of", "null exactly when tokens is 0"),
        (begins(1, 10), "prefix.of", "a call before call 1, found call 1"),
        (begins(2, 10), "prefix.of", "a call before call 1, found call 2"),
        (begins(7, 10), "prefix.of", "the number of a call in this trace, found 7"),
        (begins("s7", 10), "prefix.of", "the id of a shared prefix, found 's7'"),
        (begins("s0", 41), "prefix.tokens", "at most the 40 tokens of the stream 's0'"),
    ],
)
def test_a_prefix_lies_in_its_prompt_and_in_an_earlier_stream(prefix: Prefix, field: str, message: str) -> None:
    error = refusal(trace(make_call(0), make_call(1, isl=130, prefix=prefix), make_call(2), shared=[SYSTEM]))

    assert (error.event, error.field) == (1, field)
    assert message in str(error)


def test_a_prefix_is_of_its_own_domain() -> None:
    error = refusal(trace(make_call(0), make_call(1, prefix=begins(0, 10), domain=1)))

    assert (error.event, error.field) == (1, "prefix.of")
    assert "a call of cache domain 1, found call 0 of domain 0" in str(error)


def test_blocks_are_whole_but_for_a_whole_prompt() -> None:
    validate(trace(make_call(0, 100), make_call(1, 100, prefix=begins(0, 100)), granularity=64))

    error = refusal(trace(make_call(0, 100), make_call(1, 101, prefix=begins(0, 100)), granularity=64))
    assert (error.event, error.field) == (1, "prefix.tokens")


@pytest.mark.parametrize(
    ("link", "field", "message"),
    [
        (SharedPrefixLink("s0", 41), "prefix.tokens", "at most the 40 tokens of both streams"),
        (SharedPrefixLink("s0", 30, low=31), "prefix", "low <= tokens <= high"),
        (SharedPrefixLink("s0", 30, high=29), "prefix", "low <= tokens <= high"),
        (SharedPrefixLink("s1", 30), "prefix.of", "a shared prefix that stands before it, found 's1'"),
        (SharedPrefixLink("s2", 30), "prefix.of", "a shared prefix that stands before it, found 's2'"),
    ],
)
def test_a_shared_prefix_begins_like_one_that_stands_before_it(
    link: SharedPrefixLink, field: str, message: str
) -> None:
    shared = [SYSTEM, SharedPrefix("s1", "group", 60, link), SharedPrefix("s2", "group", 60)]

    error = refusal(trace(shared=shared))

    assert error.field == f"shared_prefixes.s1.{field}"
    assert message in str(error)


def test_a_shared_prefix_has_an_id_of_its_own() -> None:
    assert refusal(trace(shared=[SYSTEM, SYSTEM])).field == "shared_prefixes.s0"
