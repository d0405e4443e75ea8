from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import TraceError, dumps, loads
from rotoscope.traces.model import Message, Prefix, ToolCall


def test_turns_and_isl_say_what_the_calls_are() -> None:
    trace = make_trace(turns=3, isl=100, osl=20, new=30)

    assert [call.prompt_tokens for call in trace.calls()] == [100, 150, 200]
    assert [call.prefix.tokens for call in trace.calls()] == [40, 120, 170]
    assert len([event for event in trace.events if isinstance(event, ToolCall)]) == 2
    assert [call.finish_reason for call in trace.calls()] == ["tool_calls", "tool_calls", "stop"]


def test_messages_are_the_prompt() -> None:
    trace = make_trace(turns=3, isl=100, osl=20)
    tokens = sum(event.tokens for event in trace.events if isinstance(event, Message))

    *_, last = trace.calls()
    assert last.prompt_tokens == tokens + 2 * 20


@given(turns=st.integers(0, 5), isl=st.integers(1, 300), osl=st.integers(0, 50), new=st.integers(0, 50))
def test_every_trace_made_is_a_trace(turns: int, isl: int, osl: int, new: int) -> None:
    trace = make_trace(turns, isl, osl=osl, new=new, system=isl // 2)

    assert loads(dumps(trace)) == trace
    assert len(list(trace.calls())) == turns


def test_a_system_prompt_longer_than_the_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="system 100 and isl 100"):
        make_trace(isl=100, system=100)


def test_events_that_are_no_trace_are_refused() -> None:
    with pytest.raises(TraceError, match="expected a call before call 0"):
        trace_of(make_call(0, prefix=Prefix(0, 10, "ids")))
