"""Conversations in which each call begins like the one before it, and what a format that can name no other must keep."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, Prefix, Trace, normalise
from rotoscope.traces.corpus import Member
from rotoscope.traces.forest import Forest


@st.composite
def conversations(draw: st.DrawFn) -> Trace:
    """Calls that each begin like the one before them, all of it or a part."""
    calls: list[Call] = []
    for number in range(draw(st.integers(1, 6))):
        tokens = draw(st.integers(0, calls[-1].stream_tokens)) if calls else 0
        prefix = Prefix(number - 1 if tokens else None, tokens, "ids")
        isl, osl = max(tokens + draw(st.integers(0, 5)), 1), draw(st.integers(1, 5))
        times = {"at_ms": 100.0 * number, "duration_ms": float(draw(st.integers(0, 100)))}
        calls.append(make_call(number, isl, osl=osl, prefix=prefix, **times))
    return normalise(trace_of(*calls))


def assert_conversations(given: Sequence[Member], found: Sequence[Member]) -> None:
    """Lengths, starts, and what each call has in common with the one before it must be the same."""
    assert [member.start_ms for member in found] == [member.start_ms for member in given]
    for member, other in zip(given, found, strict=True):
        calls, back = list(member.trace.calls()), list(other.trace.calls())
        assert [(c.prompt_tokens, c.completion_tokens) for c in back] == [
            (c.prompt_tokens, c.completion_tokens) for c in calls
        ]
        forest, other_forest = Forest.of_trace(member.trace), Forest.of_trace(other.trace)
        for number in range(1, len(calls)):
            shared = min(forest.common_prefix(number - 1, number), calls[number].prompt_tokens)
            assert other_forest.common_prefix(number - 1, number) == shared
