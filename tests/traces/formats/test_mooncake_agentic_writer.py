from __future__ import annotations

import json
from typing import Any

from chain_structure import chains, in_order, members_of
from hypothesis import assume, example, given, settings
from mooncake_files import read, span, step
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_agentic import IN_LINE, OTHER_WAITS
from rotoscope.traces.formats.mooncake_agentic_writer import (
    FROM_START,
    MEANWHILE,
    write_mooncake_agentic,
)
from rotoscope.traces.formats.mooncake_writer import NO_CALL_AFTER
from rotoscope.traces.model import DropKvCache, ParallelEnd, ParallelStart, ToolCall


def written(members: list[Member], *, block_size: int = 512, fidelity: Fidelity | None = None) -> list[dict[str, Any]]:
    pieces = write_mooncake_agentic(members, fidelity or Fidelity(), block_size=block_size)
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


ROWS = [
    step("p1", "root", 1, at_ms=0, branches=["a1", "b1"], prefix_reset=True),
    step("a1", "a", 3, 4, at_ms=200, after=["p1"], delay=100.0, prefix_reset=True),
    step("b1", "b", 3, 5, at_ms=210, after=["p1"], delay=110.0, branches=["c1"], prefix_reset=True),
    step("c1", "c", 9, at_ms=250, after=["b1"], delay=1.5, prefix_reset=True),
    step("a2", "a", 3, 4, 6, at_ms=300, after=["a1"], delay=20.0, prefix_reset=False),
    step("p2", "root", 1, 2, at_ms=500, after=["p1", "a2", "b1"], delay=150.0, prefix_reset=False),
    step(
        *("p3", "root", 1, 2, 7),
        at_ms=900,
        after=["p2"],
        delay=50.0,
        prefix_reset=False,
        tool_wait_ms=100.0,
        tool_events=[span("ls", 5000, 80), span("read", 5020, 80)],
    ),
    step("x1", "other", 1, 8, at_ms=901, prefix_reset=True),
]


def links(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What rows say of their order, with requests and sessions numbered by their rows."""
    ids = {fields["request_id"]: place for place, fields in enumerate(rows)}
    sessions: dict[str, int] = {}
    return [
        (
            sessions.setdefault(fields["session_id"], len(sessions)),
            sorted(ids[name] for name in fields["wait_for"]),
            sorted(ids[name] for name in fields.get("branches", ())),
            fields["prefix_reset"],
            fields.get("delay", 0),
            fields.get("tool_wait_ms"),
            fields.get("timestamp"),
            fields["input_length"],
            fields["output_length"],
            len(fields["hash_ids"]),
        )
        for fields in rows
    ]


def test_rows_come_back_as_they_were_up_to_names() -> None:
    back = written(read(*ROWS))

    assert links(back) == links(ROWS)
    spans = [(e["started_at_unix_ms"], e["ended_at_unix_ms"], e["duration_ms"]) for e in back[6]["tool_events"]]
    assert [(start - spans[0][0], end - start, duration) for start, end, duration in spans] == [
        (0, 80, 80.0),
        (20, 80, 80.0),
    ]
    assert {e["tool_class"] for e in back[6]["tool_events"]} == {"tool0", "tool1"}


def test_runs_come_back_as_they_were() -> None:
    members = read(*ROWS)

    assert read(*written(members)) == members


@given(corpora())
def test_any_corpus_can_be_read_again_with_the_same_calls_chains_and_order(traces: list[Trace]) -> None:
    members = members_of(traces)
    rows = written(members, block_size=2)
    calls = [call for _, call in in_order(members)]

    back = read(*rows) if rows else []

    lengths = [(call.prompt_tokens, call.completion_tokens) for _, call in in_order(back)]
    assert sorted(lengths) == sorted((call.prompt_tokens, call.completion_tokens) for call in calls)
    if back:
        assert {member.trace.campaign for member in back} == {back[0].trace.campaign}


FORK, JOIN = ParallelStart(region=0, num_branches=1), ParallelEnd(region=0)
ONE_BRANCH_BEFORE_ALL = trace_of(FORK, make_call(0, 1, branch=(0, 0)), DropKvCache(), JOIN, make_call(1, 1))


@settings(max_examples=50)
@given(corpora())
@example([ONE_BRANCH_BEFORE_ALL])
def test_requests_come_after_the_same_ones_again_wherever_nothing_is_said_to_be_changed(traces: list[Trace]) -> None:
    fidelity = Fidelity()
    rows = written(members_of(traces), block_size=2, fidelity=fidelity)
    back = read(*rows, fidelity=fidelity) if rows else []
    assume(not {IN_LINE, OTHER_WAITS, FROM_START} & set(fidelity.counts))

    assert all_before(written(back)) == all_before(rows)


def all_before(rows: list[dict[str, Any]]) -> list[set[int]]:
    """What each request comes after, be it through others; who started whom may be told otherwise."""
    before: list[set[int]] = []
    for _, waits, *_ in links(rows):
        before.append(set(waits).union(*(before[number] for number in waits)))
    return before


def test_a_call_waits_for_grandchildren_of_a_child_that_made_no_call() -> None:
    inner, inner_join = ParallelStart(region=1, num_branches=1, branch=(0, 0)), ParallelEnd(region=1, branch=(0, 0))
    trace = trace_of(FORK, inner, make_call(0, 9, branch=(1, 0)), inner_join, JOIN, make_call(1, 9))

    assert [fields["wait_for"] for fields in written(members_of([trace]))] == [[], ["r0"]]


def test_branches_from_the_start_that_never_join_become_runs_of_their_own() -> None:
    fidelity = Fidelity()
    fork = ParallelStart(region=0, num_branches=2)
    trace = trace_of(fork, make_call(0, 9, branch=(0, 0)), make_call(1, 9, branch=(0, 1)), make_call(2, 9))

    back = read(*written(members_of([trace]), fidelity=fidelity))

    assert len(back) == 3
    assert fidelity.counts[FROM_START] == 2


def test_branches_from_the_start_that_join_are_branches_again() -> None:
    fork, join = ParallelStart(region=0, num_branches=2), ParallelEnd(region=0)
    trace = trace_of(fork, make_call(0, 9, branch=(0, 0)), make_call(1, 9, branch=(0, 1)), join, make_call(2, 9))

    rows = written(members_of([trace]))

    assert [fields["wait_for"] for fields in rows] == [[], [], ["r0", "r1"]]
    assert [call.branch for member in read(*rows) for call in member.trace.calls()] == [(0, 0), (0, 1), None]


def test_a_call_waits_for_what_was_before_it_on_its_branch_before_the_fork_and_in_the_joined_children() -> None:
    trace = trace_of(
        make_call(0, 9),
        ParallelStart(region=0, num_branches=2),
        make_call(1, 9, branch=(0, 0)),
        make_call(2, 9, branch=(0, 0)),
        make_call(3, 9, branch=(0, 1)),
        make_call(4, 9),
        ParallelEnd(region=0),
        make_call(5, 9),
    )

    rows = written(members_of([trace]))

    assert [fields["wait_for"] for fields in rows] == [[], ["r0"], ["r1"], ["r0"], ["r0"], ["r4", "r2", "r3"]]
    assert [fields["branches"] for fields in rows] == [["r1", "r3"], [], [], [], [], []]
    assert [fields["session_id"] for fields in rows] == ["0", "0.0.0", "0.0.0", "0.0.1", "0", "0"]


def test_choices_of_one_request_wait_for_the_same_and_what_follows_waits_for_all() -> None:
    trace = trace_of(make_call(0, 9), make_call(1, 9, request=7), make_call(2, 9, request=7), make_call(3, 9))

    assert [fields["wait_for"] for fields in written(members_of([trace]))] == [[], ["r0"], ["r0"], ["r1", "r2"]]


def test_what_follows_a_wait_is_no_choice_of_the_same_request() -> None:
    trace = trace_of(make_call(0, 9, request=7), Wait(kind="think", duration_ms=5.0), make_call(1, 9, request=7))

    rows = written(members_of([trace]))

    assert [(fields["wait_for"], fields.get("delay")) for fields in rows] == [([], None), (["r0"], 5)]


def test_what_a_parent_did_before_a_fork_delays_its_children() -> None:
    trace = trace_of(
        make_call(0, 9),
        Wait(kind="think", duration_ms=5.0),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=2.5),
        ParallelStart(region=0, num_branches=1),
        Wait(kind="agent", duration_ms=4.0, branch=(0, 0)),
        make_call(1, 9, branch=(0, 0)),
    )

    assert [fields.get("delay") for fields in written(members_of([trace]))] == [None, 11.5]


def test_what_a_parent_did_beside_its_children_is_lost_where_it_waits_for_them() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        make_call(0, 9),
        ParallelStart(region=0, num_branches=1),
        make_call(1, 9, branch=(0, 0)),
        Wait(kind="think", duration_ms=5.0),
        ParallelEnd(region=0),
        Wait(kind="think", duration_ms=2.0),
        make_call(2, 9),
    )

    rows = written(members_of([trace]), fidelity=fidelity)

    assert [fields.get("delay") for fields in rows] == [None, 0, 2]
    assert (fidelity.counts[MEANWHILE], fidelity.counts[NO_CALL_AFTER]) == (1, 0)


def test_tools_count_as_long_as_any_of_them_runs_and_those_without_a_time_alone() -> None:
    def tool(number: int, at_ms: float | None, duration_ms: float) -> ToolCall:
        return ToolCall(tool_call_id=f"t{number}", tool_name="tool0", duration_ms=duration_ms, at_ms=at_ms)

    fidelity = Fidelity()
    tools = [tool(0, 10.0, 20.0), tool(1, 15.0, 5.0), tool(2, 25.0, 10.0), tool(3, 50.0, 1.0), tool(4, None, 100.0)]

    rows = written(
        members_of([trace_of(make_call(0, 9), *tools, make_call(1, 9), tool(5, None, 1.0))]), fidelity=fidelity
    )

    assert rows[1]["tool_wait_ms"] == 126
    assert len(rows[1]["tool_events"]) == 4
    assert "lost tools and waits (1 events): no call of their branch follows" in fidelity.lines()


def test_block_ids_are_those_of_the_corpus() -> None:
    members = members_of([trace_of(make_call(0, 40)), trace_of(make_call(0, 40))])
    places = [place for place, _ in in_order(members)]

    rows = written(members, block_size=16)

    assert [tuple(fields["hash_ids"]) for fields in rows] == chains(members, places, 16, with_partial=True)


def test_every_trace_is_a_session_of_its_own_whatever_its_name_is() -> None:
    members = [Member(name=name, trace=trace_of(make_call(0, 9))) for name in ("alice", "alice", "")]

    assert [fields["session_id"] for fields in written(members)] == ["0", "1", "2"]


def test_waits_before_the_first_call_are_lost_and_said_to_be() -> None:
    human = Wait(kind="human", duration_ms=7.0)
    fidelity = Fidelity()

    list(
        write_mooncake_agentic(
            [Member(name="", trace=trace_of(human, make_call(0), human, make_call(1)))], fidelity, block_size=512
        )
    )

    met = [(aspect.verdict, times) for aspect, times in fidelity.counts.items() if aspect.what == "waits"]
    assert sorted(met) == [("kept", 1), ("lost", 1)]
