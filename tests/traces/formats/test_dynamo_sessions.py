from __future__ import annotations

import pytest
from foreign_events import dynamo, dynamo_request
from foreign_traces import Json

from rotoscope.traces import TraceError
from rotoscope.traces.formats.dynamo_records import read_records
from rotoscope.traces.formats.dynamo_sessions import Run, Session, runs_of
from rotoscope.traces.formats.source import Source


def runs(*records: Json) -> list[Run]:
    return runs_of(read_records(Source.of_bytes(dynamo(*records), "x")).requests)


def tree(session: Session) -> object:
    return {session.id[1]: (session.requests, [tree(child) for child in session.children])}


def old(run: str, session: str, parent: str | None = None) -> Json:
    return {"session_id": run, "trajectory_id": session, "parent_trajectory_id": parent}


def test_sessions_that_go_back_to_one_are_a_run() -> None:
    found = runs(
        dynamo_request("0", 0, session="a"),
        dynamo_request("1", 1, session="b", parent="a"),
        dynamo_request("2", 2, session="z"),
        dynamo_request("3", 3, session="c", parent="b"),
        dynamo_request("4", 4, session="a"),
        dynamo_request("5", 5),
    )

    assert [(run.name, tree(run.root)) for run in found] == [
        ("a", {"a": ([0, 4], [{"b": ([1], [{"c": ([3], [])}])}])}),
        ("z", {"z": ([2], [])}),
    ]


def test_sessions_of_one_run_that_nobody_started_belong_to_the_first() -> None:
    (run,) = runs(
        dynamo_request("0", 0, context=old("run", "b")),
        dynamo_request("1", 1, context=old("run", "a")),
        dynamo_request("2", 2, context=old("run", "c", "a")),
    )

    assert (run.name, tree(run.root)) == ("run", {"b": ([0], [{"a": ([1], [{"c": ([2], [])}])}])})


def test_an_ancestor_without_requests_holds_its_sessions_together() -> None:
    (run,) = runs(
        dynamo_request("0", 0, session="a", parent="gone"), dynamo_request("1", 1, session="b", parent="gone")
    )

    assert tree(run.root) == {"gone": ([], [{"a": ([0], [])}, {"b": ([1], [])}])}


def test_an_ancestor_without_requests_is_passed_over_where_it_started_one_session() -> None:
    (run,) = runs(dynamo_request("0", 0, session="a", parent="gone"))

    assert tree(run.root) == {"a": ([0], [])}


def test_the_same_name_in_two_runs_is_two_sessions() -> None:
    found = runs(dynamo_request("0", 0, context=old("x", "main")), dynamo_request("1", 1, context=old("y", "main")))

    assert [run.name for run in found] == ["x", "y"]


@pytest.mark.parametrize("names", ["aa", "abba", "abbcca", "zaabbcca"])
def test_a_circle_of_parents_is_told_with_its_line(names: str) -> None:
    pairs = (
        [(names[i], names[i + 1]) for i in range(len(names) % 2, len(names), 2)]
        if names[0] != "z"
        else [("a", "b"), ("b", "c"), ("c", "a")]
    )
    records = [dynamo_request(str(i), i, session=own, parent=parent) for i, (own, parent) in enumerate(pairs)]

    with pytest.raises(TraceError, match=r"trace:1: agent_context: expected .* found a circle of parents"):
        runs(*records)


def test_two_parents_of_one_session_are_told_with_the_line() -> None:
    with pytest.raises(TraceError, match="trace:3: agent_context: expected one parent"):
        runs(
            dynamo_request("0", 0, session="a", parent="p"),
            dynamo_request("1", 1, session="a"),
            dynamo_request("2", 2, session="a", parent="q"),
        )


def test_a_long_chain_of_parents_is_no_trouble() -> None:
    records = [dynamo_request(str(i), i, session=str(i), parent=str(i + 1)) for i in range(5000)]

    (run,) = runs(*records)

    assert (run.name, len(run.sessions)) == ("5000", 5001)
