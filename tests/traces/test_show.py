from __future__ import annotations

from dataclasses import replace

import pytest

from rotoscope.traces import (
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    ToolCall,
    Trace,
    Wait,
)
from rotoscope.traces.model import Outputs
from rotoscope.traces.show import Row, heading, rows, time_line, whole_span, without_short_waits

TRACE = Trace(
    trace_id="00000000",
    campaign="11111111",
    token_source="usage",
    shared_prefixes=(SharedPrefix("s0", "system", 40),),
    events=(
        Message(conversation_id=0, role="system", message_index=0, tokens=40, system_prompt_id="s0"),
        Message(conversation_id=0, role="user", message_index=1, tokens=20),
        Call(
            call=0,
            conversation_id=0,
            message_index=2,
            prompt_tokens=60,
            completion_tokens=10,
            reasoning_tokens=4,
            prefix=Prefix("s0", 40, "text", 30, 41),
            tool_calls=("tool1",),
            cached_tokens=32,
            at_ms=0,
            duration_ms=1000.0,
        ),
        ToolCall(tool_call_id="t0", tool_name="tool1", duration_ms=500.0, call=0, at_ms=1000, time_source="gap"),
        ParallelStart(region=0, num_branches=2, evidence="client"),
        ParallelStart(region=1, num_branches=1, branch=(0, 1)),
        Call(
            call=1,
            conversation_id=1,
            message_index=0,
            prompt_tokens=9,
            completion_tokens=1,
            prefix=Prefix(None, 0, "text"),
            finish_reason="lost",
            branch=(1, 0),
            at_ms=1500,
            duration_ms=500.0,
            domain=1,
            aux=True,
            attempts=2,
            link="prefix",
            rivals=2,
        ),
        Wait(kind="human", duration_ms=250.0, branch=(0, 1)),
        ParallelEnd(region=0),
        Embedding(prompt_tokens=7),
        DropKvCache(),
    ),
)


def test_a_row_says_what_a_call_shares_and_with_what() -> None:
    first, tool, *_ = rows(TRACE)

    assert first.what == "call 0, conversation 0, +2 messages, → tool1"
    assert (first.isl, first.osl, first.new, first.cached) == ("60", "10 (4 reasoning)", "20", "32")
    assert first.shares == "40 of s0 (text, 30 to 41)"
    assert tool.what == "t0 tool1 for call 0 (gap)"
    assert tool.span == (1000, 1500)


def test_branches_are_named_by_their_way_from_the_root() -> None:
    assert [row.branch for row in rows(TRACE)] == [
        *("root", "root", "root", "0.1", "0.1/1.0", "0.1", "root", "root", "root")
    ]


def test_what_is_unusual_about_a_call_is_said() -> None:
    assert rows(TRACE)[4].what == "call 1, conversation 1, domain 1, aux, 2 attempts, by prefix (1 of 3), lost"
    assert rows(TRACE)[4].shares == "nothing"


def test_a_fork_says_how_it_is_known_who_began_its_branches() -> None:
    assert [row.what for row in rows(TRACE)[2:4]] == [
        "fork: region 0, 2 branches (by client)",
        "fork: region 1, 1 branch",
    ]


def test_the_whole_runs_from_the_first_start_to_the_last_end() -> None:
    assert whole_span(rows(TRACE)) == (0, 2000)


def test_heading_names_the_shared_prefixes() -> None:
    assert "shared prefix s0: system, 40 tokens" in heading(TRACE)


def test_heading_says_how_calls_are_linked() -> None:
    unlinked = replace(TRACE, events=TRACE.events[:3])

    assert "linked by: prefix 1; 1 could as well go on from another" in heading(TRACE)
    assert not [line for line in heading(unlinked) if line.startswith("linked")]


@pytest.mark.parametrize(("outputs", "said"), [("unknown", "is not known"), ("assumed", "is assumed"), ("known", "")])
def test_heading_says_how_sure_the_reuse_of_outputs_is(outputs: Outputs, said: str) -> None:
    lines = [
        line for line in heading(replace(TRACE, outputs=outputs)) if "outputs" in line and "output tokens" not in line
    ]

    assert [said in line for line in lines] == [True] * bool(said)


@pytest.mark.parametrize(
    ("span", "bar"), [((0, 1000), "█████"), ((1000, 2000), "    ██████"), ((2000, 2000), " " * 9 + "█")]
)
def test_bars_stand_at_their_place_in_the_whole(span: tuple[float, float], bar: str) -> None:
    drawn = time_line(span, (0, 2000), 10)

    assert drawn.lstrip()
    assert len(drawn) <= 10
    assert abs(len(drawn) - len(bar)) <= 1
    assert drawn.index("█") == bar.index("█")


def test_short_waits_of_the_agent_are_left_out_and_counted() -> None:
    waits = [
        Wait(kind="think", duration_ms=9.0, at_ms=100),
        Wait(kind="agent", duration_ms=8.0, at_ms=300),
        Wait(kind="think", duration_ms=10.0, at_ms=400),
        Wait(kind="human", duration_ms=1.0, at_ms=499),
        Wait(kind="think", duration_ms=1.0),
    ]
    tool = ToolCall(tool_call_id="t0", tool_name="tool1", duration_ms=400.0, at_ms=0)
    table = rows(replace(TRACE, events=(tool, *waits)))
    table.append(Row("root", "end", span=(399, 400)))

    kept, said = without_short_waits(table, 50)

    assert [row.what for row in kept] == ["t0 tool1", "wait: think", "wait: human", "wait: think", "end"]
    assert said == "2 waits below 0.01 s, 0.02 s in all, left out"


def test_where_no_wait_is_short_nothing_is_said() -> None:
    assert without_short_waits(rows(TRACE), 40) == (rows(TRACE), "")
    assert without_short_waits([], 40) == ([], "")
