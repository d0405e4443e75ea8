from __future__ import annotations

import pytest
from mooncake_files import lines, row, step

from rotoscope.traces import TraceError
from rotoscope.traces.formats.mooncake_links import Links
from rotoscope.traces.formats.mooncake_rows import parse_rows
from rotoscope.traces.formats.source import Source


def links(*rows: object) -> Links:
    return Links.of(parse_rows(Source.of_bytes(lines(*rows)), dialect="mooncake").rows)


def test_rows_of_a_session_are_a_line() -> None:
    found = links(step("a", "s", 1), step("b", "t", 2), step("c", "s", 1, 3, after=["a"]))

    assert (found.lines, found.turns, found.runs()) == ([0, 1, 0], [0, 0, 1], [0, 1, 0])
    assert (found.not_waited, found.others) == (set(), 0)


def test_rows_without_a_session_go_on_with_what_they_wait_for() -> None:
    found = links(
        step("a", None, 1),
        step("b", None, 2, after=["a"]),
        step("c", None, 3, after=["a"]),
        step("d", None, 4, after=["b"]),
    )

    assert found.lines == [0, 0, 1, 0]
    assert found.starts == [None, 0]
    assert found.runs() == [0, 0, 0, 0]


def test_a_line_is_started_by_the_latest_row_it_waits_for_or_the_one_that_names_it() -> None:
    found = links(
        step("a", "root", 1, branches=["d"]),
        step("b", "root", 1, 2, after=["a"]),
        step("c", "waits", 3, after=["a", "b"]),
        step("d", "named", 4),
        step("e", "alone", 5, branches=["e", "nobody"]),
    )

    assert found.starts == [None, 1, 0, None]
    assert found.runs() == [0, 0, 0, 0, 1]


def test_a_child_joins_before_the_first_row_of_its_parent_that_waits_for_it() -> None:
    found = links(
        step("a", "root", 1),
        step("b", "child", 2, after=["a"]),
        step("c", "child", 2, 3, after=["b"]),
        step("d", "root", 1, 4, after=["a", "c"]),
        step("e", "root", 1, 4, 5, after=["d", "c"]),
    )

    assert found.joins == {1: 3}
    assert found.others == 0


def test_a_child_that_goes_on_after_the_row_that_waits_for_it_is_not_joined() -> None:
    found = links(
        step("a", "root", 1),
        step("b", "child", 2, after=["a"]),
        step("c", "root", 1, 4, after=["a", "b"]),
        step("d", "child", 2, 3, after=["b"]),
    )

    assert (found.joins, found.others) == ({}, 1)


def test_a_child_does_not_join_while_its_own_children_go_on() -> None:
    rows = [
        step("a", "root", 1),
        step("b", "child", 2, after=["a"]),
        step("c", "grandchild", 3, after=["b"]),
        step("d", "root", 1, 4, after=["a", "b"]),
    ]

    assert links(*rows).joins == {1: 3}
    assert links(*rows, step("e", "grandchild", 3, 5, after=["c"])).joins == {}


def test_whoever_waits_for_a_grandchild_waits_for_the_child() -> None:
    found = links(
        step("a", "root", 1),
        step("b", "child", 2, after=["a"]),
        step("c", "grandchild", 3, after=["b"]),
        step("d", "root", 1, 4, after=["a", "c"]),
    )

    assert (found.joins, found.others) == ({1: 3}, 0)


def test_waits_that_a_line_or_a_start_implies_are_told_and_those_for_others_are_counted() -> None:
    found = links(
        step("a", "root", 1),
        step("b", "root", 1, 2, after=["a"]),
        step("c", "root", 1, 3, after=["a", "b"]),
        step("d", "child", 4, after=["b"]),
        step("e", "child", 4, 5, after=["d", "a"]),
        step("f", "child", 4, 6, after=["e", "c"]),
        step("g", "other", 7),
        step("h", "root", 1, 8, after=["c", "g"]),
    )

    assert found.starts == [None, 1, None]
    assert found.others == 1


def test_what_nothing_started_is_a_child_from_the_beginning_of_the_line_that_waits_for_it() -> None:
    found = links(
        step("x", "early", 7),
        step("a", "root", 1),
        step("y", "late", 8),
        step("b", "root", 1, 2, after=["a", "x", "y"]),
        step("c", "other", 1, 2),
    )

    assert (found.parents, found.joins) == ([1, None, 1, None], {0: 3, 2: 3})
    assert (found.runs(), found.others) == ([0, 0, 0, 0, 1], 0)


def test_a_line_waits_for_no_one_that_it_belongs_to() -> None:
    rows = [step("x", "one", 1), step("a", "two", 2), step("b", "two", 2, 3, after=["a", "x"])]

    found = links(*rows, step("y", "one", 1, 4, after=["x", "b"]))

    assert (found.parents, found.others) == ([None, 0], 1)


def test_a_line_that_was_started_itself_takes_in_nobody_from_the_beginning() -> None:
    found = links(
        step("x", "one", 1),
        step("a", "root", 2),
        step("b", "child", 3, after=["a"]),
        step("c", "child", 3, 4, after=["b", "x"]),
    )

    assert (found.parents, found.others) == ([None, None, 1], 1)


def test_a_row_that_did_not_wait_for_the_one_before_it_is_found() -> None:
    assert links(step("a", "s", 1), step("b", "s", 2), step("c", "s", 3, after=["a"])).not_waited == {1, 2}


def test_how_long_an_answer_took_follows_from_one_row_that_waits_for_it_alone() -> None:
    found = links(
        step("a", "s", 1, at_ms=10),
        step("b", "s", 2, at_ms=100, after=["a"], delay=20.0, tool_wait_ms=30.0),
        step("c", "t", 3, at_ms=120, after=["b"], delay=0.0),
        step("d", "s", 4, at_ms=200, after=["b", "c"], delay=50.0),
        step("e", "s", 5, at_ms=210, after=["d"], delay=99.0),
    )

    assert found.durations() == {0: 40.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([step("a", "s", 1), step("a", "t", 2)], ":2: request_id: expected an id of its own, found that of line 1"),
        (
            [step("a", "s", 1), step("b", "s", 2, after=["a", "x"])],
            r":2: wait_for\[1\]: expected the request_id of a row",
        ),
        (
            [step("a", "s", 1, after=["a"])],
            r":1: wait_for\[0\]: expected a request that was sent before it, found itself",
        ),
        (
            [step("a", "s", 1, after=["b"]), step("b", "t", 2, after=["a"])],
            r":1: wait_for\[0\]: .* found that of line 2",
        ),
        ([step("a", "s", 1), row(1, 2)], ":2: request_id: required where other rows have it"),
    ],
)
def test_requests_that_repeat_or_wait_for_unknown_or_later_ones_are_errors(rows: list[object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        links(*rows)


def test_a_request_that_names_one_twice_waits_once() -> None:
    assert links(step("a", "s", 1), step("b", "s", 2, after=["a", "a"])).waits == [(), (0,)]
