from __future__ import annotations

import pytest
from mooncake_files import chat, lines, row, turn

from rotoscope.traces import TraceError
from rotoscope.traces.formats.mooncake_corpus import domains_of, tree_of
from rotoscope.traces.formats.mooncake_rows import parse_rows
from rotoscope.traces.formats.mooncake_sessions import Sessions, by_chain, by_id, by_parent
from rotoscope.traces.formats.source import Source


def inferred(*rows: object) -> Sessions:
    file = parse_rows(Source.of_bytes(lines(*rows)), dialect="mooncake")
    return by_chain(file.rows, tree_of(file.rows, domains_of(file.rows), file.block_size))


def test_a_prompt_that_begins_with_all_of_the_last_one_is_the_next_turn() -> None:
    sessions = inferred(row(0, 1, 2, 3), row(0, 5, 6), row(10, 1, 2, 3, 4), row(20, 5, 6, 7), row(30, 1, 2, 3, 4, 8))

    assert sessions == Sessions([0, 1, 0, 1, 0])


def test_a_partial_block_of_the_last_prompt_need_not_come_back() -> None:
    assert inferred(row(0, 1, 2, tail=9), row(10, 1, 3, 4)).of_rows == [0, 0]


def test_what_others_begin_with_too_is_no_evidence() -> None:
    assert inferred(row(0, 1), row(0, 1), row(2, 1, 2)).of_rows == [0, 1, 2]
    assert inferred(row(0, 1, 2), row(1, 1, 5), row(2, 1, 2, 3), row(3, 1, 5, 6)).of_rows == [0, 1, 0, 1]


def test_what_two_sessions_have_since_belongs_to_none() -> None:
    at_once = row(5, 1, 2, 7)

    assert inferred(row(5, 1, 2), at_once, row(9, 1, 2, 8)).of_rows == [0, 1, 2]


def test_a_row_that_begins_like_an_earlier_prompt_but_not_like_the_last_starts_a_session_and_is_counted() -> None:
    sessions = inferred(row(0, 1, 2), row(1, 1, 2, 3, 4), row(2, 1, 2, 3, 5), row(3, 1, 2, 3, 4, 6))

    assert sessions == Sessions([0, 0, 1, 0], doubtful_starts=1)


@pytest.mark.parametrize("at_ms", [5, 4, None])
def test_a_turn_comes_later_than_the_one_before_it(at_ms: int | None) -> None:
    assert inferred(row(5, 1, 2), row(at_ms, 1, 2, 3)).of_rows == [0, 1]


def test_a_prompt_without_a_whole_block_is_never_continued() -> None:
    assert inferred(row(0, 1, tail=9), row(5, 2, 3)).of_rows == [0, 1]


def test_a_prompt_that_is_repeated_is_a_turn_that_is_doubtful() -> None:
    assert inferred(row(0, 1, 2), row(5, 1, 2)) == Sessions([0, 0], doubtful_turns=1)


def test_models_share_no_session() -> None:
    assert inferred(row(0, 1, 2, model="a"), row(5, 1, 2, 3, model="b")).of_rows == [0, 1]


def test_rows_without_block_ids_are_sessions_of_their_own() -> None:
    plain = {"timestamp": 1, "input_length": 900, "output_length": 1}

    assert inferred(plain, {**plain, "timestamp": 2}).of_rows == [0, 1]


def test_rows_of_one_id_are_a_session_and_those_without_one_are_alone() -> None:
    file = parse_rows(
        Source.of_bytes(lines(turn("b", 1), row(0, 2), turn("a", 3), turn("b", 4), row(0, 2))), dialect="mooncake"
    )

    assert by_id(file.rows).of_rows == [0, 1, 2, 0, 3]


def test_chats_belong_to_the_first_one_they_go_back_to() -> None:
    rows = [chat(7, -1, 0, 1), chat(8, -1, 1, 2), chat(9, 7, 2, 1, 3), chat(10, 9, 3, 1, 3, 4), chat(11, 7, 4, 1, 5)]

    file = parse_rows(Source.of_bytes(lines(*rows, chat(12, 99, 5, 6), chat(13, None, 6, 6))), dialect="bailian")

    assert by_parent(file.rows).of_rows == [0, 1, 0, 0, 0, 2, 3]


def test_long_chains_of_chats_are_followed_in_either_order() -> None:
    rows = [chat(number, number - 1 if number else -1, number, 1) for number in range(3000)]

    for ordered in (rows, rows[::-1]):
        file = parse_rows(Source.of_bytes(lines(*ordered)), dialect="bailian")
        assert set(by_parent(file.rows).of_rows) == {0}


@pytest.mark.parametrize("rows", [[chat(1, 1, 0, 1)], [chat(1, 2, 0, 1), chat(2, 3, 0, 1), chat(3, 2, 0, 1)]])
def test_chats_that_go_in_a_circle_are_an_error(rows: list[object]) -> None:
    file = parse_rows(Source.of_bytes(lines(*rows)), dialect="bailian")

    with pytest.raises(TraceError, match="expected a first chat, found a circle"):
        by_parent(file.rows)
