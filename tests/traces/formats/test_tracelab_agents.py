from __future__ import annotations

from collections import defaultdict
from typing import Any

from foreign_events import tracelab, tracelab_round, tracelab_tool
from foreign_traces import Json
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab_agents import Links, links_of
from rotoscope.traces.formats.tracelab_rounds import Round, read_rounds


def links(*rounds: Json) -> Links:
    sessions: dict[str, list[Round]] = defaultdict(list)
    for round_ in read_rounds(Source.of_bytes(tracelab(*rounds))).rounds:
        sessions[round_.session].append(round_)
    return links_of(sessions)


def session(
    name: str, start_s: float, end_s: float, *windows: tuple[float, float], tool: str = "Task", **more: Any
) -> Json:
    tools = [tracelab_tool(tool, *window) for window in windows]
    return tracelab_round(name, 0, start_s, end_s, 9, 0, tools=tools, **more)


def test_a_session_within_a_call_that_runs_agents_is_its_agent() -> None:
    found = links(session("A", 0, 100, (10, 40)), session("B", 10, 40), session("C", 40, 40), session("D", 10, 10))

    assert found.parents == {"B": "A", "C": "A", "D": "A"}


def test_the_tightest_call_wins_where_one_lies_in_the_other() -> None:
    found = links(session("A", 0, 100, (10, 90)), session("B", 15, 80, (20, 50)), session("C", 25, 45))

    assert found.parents == {"B": "A", "C": "B"}
    assert found.doubtful == 0


def test_where_calls_of_two_sessions_would_do_nothing_is_said() -> None:
    found = links(session("A", 0, 100, (10, 40)), session("B", 0, 100, (12, 50)), session("C", 20, 30))

    assert (found.parents, found.doubtful) == ({}, 1)


def test_calls_of_one_session_side_by_side_are_no_doubt() -> None:
    assert links(session("A", 0, 100, (10, 40), (12, 50)), session("B", 20, 30)).parents == {"B": "A"}


def test_what_does_not_lie_within_a_long_call_of_the_same_project_is_a_session_of_its_own() -> None:
    parent = session("A", 0, 100, (10, 40))

    for other in (session("B", 10, 41), session("B", 9, 40), session("B", 15, 20, project="another")):
        assert links(parent, other).parents == {}
    for parent in (
        session("A", 0, 100, (10, 40), tool="Bash"),
        session("A", 0, 100, (10, 19)),
        session("A", 0, 100, (10, 40), provider="codex"),
    ):
        assert links(parent, session("B", 12, 15)).parents == {}


SPANS = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda ends: (20.0 * min(ends), 20.0 * max(ends)))


@given(st.lists(st.tuples(SPANS, st.lists(SPANS, max_size=2)), max_size=6))
def test_sessions_never_run_each_other_in_a_circle(
    sessions: list[tuple[tuple[float, float], list[tuple[float, float]]]],
) -> None:
    rounds = [session(str(i), *span, *windows) for i, (span, windows) in enumerate(sessions)]

    parents = links(*rounds).parents

    for name in parents:
        seen = {name}
        while name in parents:
            name = parents[name]
            assert name not in seen
            seen.add(name)
