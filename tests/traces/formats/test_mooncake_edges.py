from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import TraceError
from rotoscope.traces.formats.mooncake_edges import Edge, Step, in_sending_order
from rotoscope.traces.formats.mooncake_rows import SourceRow, Workflow


def step(name: str, *edges: Edge, at_ms: float = 0.0, took_ms: float | None = None, ordinal: int = 0) -> Step:
    workflow = Workflow(request_id=name, wait_for=tuple(e.request_id for e in edges), play="p", duration_ms=took_ms)
    row = SourceRow(
        line=1,
        at_ms=at_ms,
        prompt_tokens=1,
        completion_tokens=1,
        block_ids=(),
        model=None,
        session="s",
        delay_ms=None,
        workflow=workflow,
    )
    return Step(row, edges, ordinal)


def after(name: str, delay_ms: float, *, dispatch: bool = False, relation: str = "sequence") -> Edge:
    return Edge(name, "dispatch" if dispatch else "completion", delay_ms, relation)


def times(*steps: Step) -> list[tuple[str, float | None, float | None]]:
    rows = in_sending_order(steps)
    return [(row.workflow.request_id, row.at_ms, row.delay_ms) for row in rows if row.workflow]


def test_a_time_later_than_all_that_is_waited_for_is_kept_even_where_it_overlaps_an_answer() -> None:
    assert times(step("a", took_ms=50), step("b", after("a", 2), at_ms=40)) == [("a", 0.0, None), ("b", 40.0, 2)]


def test_another_time_is_the_earliest_that_all_edges_allow() -> None:
    found = times(
        step("a", took_ms=50), step("b", after("a", 60, dispatch=True)), step("c", after("a", 2), after("b", 9))
    )

    assert found == [("a", 0.0, None), ("b", 60.0, 10.0), ("c", 69.0, 2)]


def test_the_gap_behind_answers_with_different_delays_is_that_since_the_last_of_them() -> None:
    found = times(
        step("a", took_ms=10), step("b", took_ms=50), step("c", after("a", 100), after("b", 0), at_ms=110, took_ms=1)
    )

    assert found[-1] == ("c", 110, 60.0)


def test_the_delay_of_a_barrier_counts_only_where_it_is_alone() -> None:
    barrier = after("a", 0, relation="replay_barrier")

    assert times(step("a"), step("b"), step("c", barrier, after("b", 7)))[-1][2] == 7
    assert times(step("a"), step("c", barrier))[-1][2] == 0


def test_a_circle_of_any_length_is_an_error() -> None:
    circle = [step(str(place), after(str((place + 1) % 5), 0)) for place in range(5)]

    with pytest.raises(TraceError, match="found a circle"):
        in_sending_order([step("first"), *circle])


@given(st.lists(st.tuples(st.floats(0, 100), st.lists(st.integers(0, 50), max_size=3)), max_size=12), st.randoms())
def test_nothing_is_sent_before_what_it_waits_for(graph: list[tuple[float, list[int]]], random: st.Random) -> None:  # type: ignore[name-defined]
    steps = []
    for place, (at_ms, chosen) in enumerate(graph):
        edges = [after(str(number % place), 1.0) for number in chosen] if place else []
        steps.append(step(str(place), *edges, at_ms=at_ms, took_ms=at_ms))
    shuffled = random.sample(steps, len(steps))

    rows = in_sending_order(shuffled)

    places = {row.workflow.request_id: index for index, row in enumerate(rows) if row.workflow}
    assert len(places) == len(steps)
    assert [row.at_ms for row in rows] == sorted(row.at_ms or 0.0 for row in rows)
    assert all(places[e.request_id] < places[str(index)] for index, one in enumerate(steps) for e in one.edges)
