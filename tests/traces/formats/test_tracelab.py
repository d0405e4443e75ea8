"""The files here are made by hand from the form that `tracelab_rounds.py` names; none was captured."""

from __future__ import annotations

import json
import logging

import pytest
from foreign_events import tracelab, tracelab_round, tracelab_tool
from foreign_traces import Json
from format_damage import every_place, read_or_told, replaced
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import (
    Call,
    ParallelEnd,
    ParallelStart,
    Prefix,
    ToolCall,
    TraceError,
    Wait,
    dumps,
    loads,
    normalise,
)
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import tracelab as module
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab import read


def members(*rounds: Json, fidelity: Fidelity | None = None) -> list[Member]:
    found = read(Source.of_bytes(tracelab(*rounds), "x"), Fidelity() if fidelity is None else fidelity)
    for member in found:
        assert loads(dumps(member.trace)) == member.trace
        assert normalise(member.trace) == member.trace
    return found


def prefixes(*rounds: Json) -> list[Prefix]:
    (member,) = members(*rounds)
    return [call.prefix for call in member.trace.calls()]


def growing(*sizes: tuple[int, int | None], out: int = 10) -> list[Json]:
    """Rounds of one session: length of the prompt and of the hit."""
    return [tracelab_round("A", i, 10 * i, 10 * i + 5, prompt, hit, out=out) for i, (prompt, hit) in enumerate(sizes)]


def test_a_hit_beyond_the_first_prompt_is_the_least_that_the_round_before_has_in_common() -> None:
    assert prefixes(*growing((100, 60), (150, 99), (200, 149)))[2] == Prefix(1, 149, "assumed", low=149, high=160)


def test_a_shorter_hit_may_come_from_elsewhere_and_a_cache_may_have_forgotten() -> None:
    assert prefixes(*growing((100, 60), (150, 99))) == [
        Prefix(None, 0, "opaque", low=0, high=100),
        Prefix(0, 99, "assumed", low=0, high=110),
    ]


def test_no_hit_at_all_tells_nothing_below_the_whole_round_before() -> None:
    assert prefixes(*growing((100, 60), (105, 0)))[1] == Prefix(None, 0, "assumed", low=0, high=105)


def test_a_hit_that_the_round_before_is_too_short_for_lies_in_the_last_that_is_long_enough() -> None:
    assert prefixes(*growing((100, 0), (200, 100), (50, 40), (180, 170)))[3] == Prefix(
        1, 170, "assumed", low=170, high=180
    )


def test_a_hit_longer_than_all_rounds_is_cut() -> None:
    assert prefixes(*growing((100, 0), (200, 150)))[1] == Prefix(0, 110, "assumed", low=0, high=150)


def test_a_round_without_a_hit_may_begin_like_anything() -> None:
    assert prefixes(*growing((100, 0), (200, None)))[1] == Prefix(None, 0, "opaque", low=0, high=200)


def test_another_model_is_another_cache() -> None:
    rounds = [
        tracelab_round("A", 0, 0, 1, 100, 0),
        tracelab_round("A", 1, 2, 3, 100, 80, model="other"),
        tracelab_round("A", 2, 4, 5, 150, 100),
        tracelab_round("A", 3, 6, 7, 150, 100, model="other"),
        tracelab_round("A", 4, 8, 9, 150, 100, provider="codex"),
    ]

    (member,) = members(*rounds)

    assert [(call.domain, call.prefix.of) for call in member.trace.calls()] == [
        (0, None),
        (1, None),
        (0, 0),
        (1, 1),
        (2, None),
    ]


def test_a_call_has_all_that_its_round_says() -> None:
    (member,) = members(
        tracelab_round("A", 0, 0, 2, 100, 60, reasoning_output_tokens=4, tools=[tracelab_tool("ls", 2, 3)]),
        tracelab_round("A", 1, 3, 4, 150, 100, outputs=["reasoning"]),
    )

    first, second = member.trace.calls()
    assert (first.prompt_tokens, first.completion_tokens, first.reasoning_tokens, first.cached_tokens) == (
        100,
        10,
        4,
        60,
    )
    assert (first.at_ms, first.duration_ms, first.tool_calls, first.finish_reason) == (
        0,
        2000,
        ("tool0",),
        "tool_calls",
    )
    assert (first.reasoning_unsized, second.reasoning_unsized, second.finish_reason) == (False, True, "unknown")
    assert member.trace.outputs == "unknown"


def test_tools_waits_and_people_fill_the_time_between_rounds() -> None:
    (member,) = members(
        tracelab_round("A", 0, 0, 1, 9, 0, tools=[tracelab_tool("ls", 1, 3), tracelab_tool("cat", 1, 2)]),
        tracelab_round("A", 1, 5, 6, 19, 9, inputs=["tool_result"], tools=[tracelab_tool("ls", None, None)]),
        tracelab_round("A", 2, 8, 9, 29, 19, inputs=["tool_result"]),
        tracelab_round("A", 3, 60, 61, 39, 29),
    )

    told = [
        (event.tool_name, event.duration_ms, event.time_source)
        if isinstance(event, ToolCall)
        else (event.kind, event.duration_ms)
        for event in member.trace.events
        if isinstance(event, ToolCall | Wait)
    ]
    assert told == [
        ("tool1", 1000, "client"),
        ("tool0", 2000, "client"),
        ("think", 2000),
        ("tool0", 2000, "gap"),
        ("human", 51000),
    ]


def test_sessions_are_traces_on_one_clock() -> None:
    first, second = members(
        tracelab_round("B", 0, 7, 8, 9, 0), tracelab_round("A", 0, 2, 3, 9, 0), tracelab_round("B", 1, 1, 2, 9, 0)
    )

    assert (first.start_ms, second.start_ms) == (0, 1000)
    assert (first.ranks, second.ranks) == ((0, 2), (1,))


def test_rounds_without_times_come_right_after_the_one_before() -> None:
    (member,) = members(
        tracelab_round("A", 2, 50, 60, 9, 0),
        tracelab_round("A", 0, 0, 5, 9, 0),
        tracelab_round("A", 1, None, None, 8, 0),
    )

    calls = list(member.trace.calls())
    assert [(call.prompt_tokens, call.at_ms, call.duration_ms) for call in calls] == [
        (9, 0, 5000),
        (8, 5000, None),
        (9, 50000, 10000),
    ]


def test_a_session_within_a_call_that_runs_agents_is_a_branch() -> None:
    (member,) = members(
        tracelab_round("A", 0, 0, 2, 100, 0, tools=[tracelab_tool("Task", 2, 40)]),
        tracelab_round("B", 0, 5, 9, 50, 0),
        tracelab_round("B", 1, 20, 30, 80, 50),
        tracelab_round("A", 1, 41, 50, 150, 100, inputs=["tool_result"]),
    )

    assert [(type(event), event.branch) for event in member.trace.events if not isinstance(event, Wait | ToolCall)] == [
        (Call, None),
        (ParallelStart, None),
        (Call, (0, 0)),
        (Call, (0, 0)),
        (ParallelEnd, None),
        (Call, None),
    ]
    assert [call.prefix.of for call in member.trace.calls()] == [None, None, 1, 0]


def test_what_is_lost_or_approximated_is_counted() -> None:
    fidelity = Fidelity()
    tools = [tracelab_tool("ls", 2, 3, tool_internal_latency_ms=5), tracelab_tool("ls", 9, 3, input="x")]

    members(
        tracelab_round("A", 0, 0, 2, 100, 60, tools=tools, reasoning_output_tokens=3),
        tracelab_round("A", 1, 1, 4, 150, 140, out=None, outputs=["reasoning"]),
        tracelab_round("A", 2, None, None, 160, 145),
        tracelab_round("A", 3, 5, 6, 0, 0),
        tracelab_round("A", 4, 7, 8, 170, None),
        fidelity=fidelity,
    )

    assert dict(fidelity.counts) == {
        module.LENGTHS: 4,
        module.DOMAINS: 4,
        module.FINISH: 4,
        module.SIZES: 4,
        module.FIRST_TOKENS: 4,
        module.TIMES: 3,
        module.NO_TIMES: 1,
        module.SESSIONS: 1,
        module.CACHED: 3,
        module.REASONING: 1,
        module.UNSIZED: 1,
        module.NO_OUTPUT: 1,
        module.PREFIXES: 2,
        module.NOT_SURE: 1,
        module.CLIPPED: 1,
        module.FIRST: 1,
        module.NO_HIT: 1,
        module.NO_PROMPT: 1,
        module.TOOLS: 1,
        module.OWN_TIMES: 1,
        module.BACKWARD: 1,
        module.TEXTS: 1,
        module.OVERLAPS: 1,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.READ_ASPECTS)


def test_a_file_without_prompts_is_told() -> None:
    with pytest.raises(TraceError, match="x: expected rounds with a prompt, found none"):
        members(tracelab_round("A", 0, 0, 1, 0, 0))


def test_agents_nested_too_deeply_are_told() -> None:
    rounds = [
        tracelab_round(str(i), 0, i, 1000 - i, 9, 0, tools=[tracelab_tool("Task", i + 0.5, 999.5 - i)])
        for i in range(80)
    ]

    with pytest.raises(TraceError, match="x: expected sessions nested at most 64 deep"):
        members(*rounds)


def test_no_text_of_the_file_is_in_the_traces(caplog: pytest.LogCaptureFixture) -> None:
    canary = "CANARY"
    tool = tracelab_tool(canary, 1, 2, tool_call_id=canary, input=canary, status=canary)

    with caplog.at_level(logging.INFO):
        found = members(
            tracelab_round(
                canary, 0, 0, 1, 9, 0, tools=[tool], provider=canary, model=canary, project=canary, user=canary,
                cwd=canary, CANARY=canary, store=canary, turn_id=canary,
            )
        )  # fmt: skip

    assert b"canary" not in b"".join(dumps(member.trace) for member in found).lower()
    assert "canary" not in caplog.text.lower()


FILE = [
    tracelab_round("A", 0, 0, 2, 100, 60, tools=[tracelab_tool("Task", 2.5, 30)], outputs=["reasoning", "tool_call"]),
    tracelab_round("B", 0, 3, 4, 80, 60, tools=[tracelab_tool("Bash", 4, 5), tracelab_tool("Read", None, None)]),
    tracelab_round("B", 1, 6, 9, 120, 80, inputs=["tool_result"], reasoning_output_tokens=4),
    tracelab_round("A", 1, 31, 40, 150, 110, inputs=["tool_result"]),
    tracelab_round("A", 2, None, None, 160, 20, model="other"),
    tracelab_round("C", 0, 10, 10, 50, 0, out=None, provider="codex"),
]
EDITS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=4)


@given(EDITS)
def test_whatever_is_changed_in_a_file_it_is_traces_or_one_clear_error(edits: list[tuple[int, int]]) -> None:
    rounds = json.loads(json.dumps(FILE))
    for which, value in edits:
        places = every_place(rounds)
        replaced(places[which % len(places)], value)

    error = read_or_told(read, tracelab(*rounds))

    assert not error or error.startswith("x:")
    assert "\n" not in error
