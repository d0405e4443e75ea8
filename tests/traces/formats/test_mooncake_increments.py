"""Tests of rows that say what a turn adds."""

from __future__ import annotations

import pytest
from mooncake_files import BLOCK, read, row, turn

from rotoscope.traces import Call, TraceError
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_increments import MOST_BLOCKS
from rotoscope.traces.model import MAX_COUNT


def calls_of(*rows: object, session: int = 0, fidelity: Fidelity | None = None) -> list[Call]:
    return list(read(*rows, fidelity=fidelity)[session].trace.calls())


def test_a_later_turn_has_all_turns_and_answers_before_it() -> None:
    first, second, third = calls_of(
        turn("a", 1, 2, tail=100, out=50), turn("a", 3, tail=30, out=7), turn("a", 4, tail=200)
    )

    assert first.prompt_tokens == BLOCK + 100
    assert second.prompt_tokens == first.prompt_tokens + 50 + 30
    assert third.prompt_tokens == second.prompt_tokens + 7 + 200


def test_a_later_turn_begins_with_the_whole_blocks_of_the_prompt_before_it() -> None:
    calls = calls_of(turn("a", 1, 2, tail=100, out=500), turn("a", 3, tail=30), turn("a", 4, tail=200))

    assert [call.prefix.tokens for call in calls] == [0, BLOCK, 2 * BLOCK]
    assert [call.prefix.of for call in calls[1:]] == [0, 1]


def test_sessions_share_what_their_first_turns_share() -> None:
    rows = [turn("a", 1, 2), turn("b", 1, 3), turn("a", 9, tail=5), turn("b", 9, tail=5)]

    a, b = calls_of(*rows), calls_of(*rows, session=1)

    assert a[0].prefix.tokens == b[0].prefix.tokens == BLOCK
    assert a[1].prefix.tokens == b[1].prefix.tokens == 2 * BLOCK
    assert a[1].prefix.of == b[1].prefix.of == 0


def test_it_is_told_that_lengths_were_taken_for_what_is_added() -> None:
    fidelity = Fidelity()

    calls_of(turn("a", 1, 2), turn("a", 3), turn("b", 1), turn("b", 4, 5), turn("c", 6), fidelity=fidelity)

    assert any(line.startswith("approximated lengths of later turns (2 sessions)") for line in fidelity.lines())


def test_one_turn_that_begins_like_the_one_before_it_makes_all_of_them_whole_prompts() -> None:
    calls = calls_of(turn("a", 1, 2), turn("a", 3), turn("b", 4), turn("b", 4, 5))

    assert [call.prompt_tokens for call in calls] == [2 * BLOCK, BLOCK]


def test_prompts_of_less_than_a_block_are_whole() -> None:
    calls = calls_of(turn("a", 1, tail=100), turn("a", 2, tail=300))

    assert [call.prompt_tokens for call in calls] == [100, 300]


def test_lengths_without_ids_that_shrink_are_what_is_added() -> None:
    lengths = {"hash_ids": None, "output_length": 20}
    rows = [{**turn("a", 1), **lengths, "input_length": n} for n in (3 * BLOCK, 90)]

    first, second = calls_of(*({k: v for k, v in one.items() if v is not None} for one in rows))

    assert (first.prompt_tokens, second.prompt_tokens) == (3 * BLOCK, 3 * BLOCK + 20 + 90)
    assert second.prefix.tokens == 3 * BLOCK


def test_rows_without_sessions_are_left_alone() -> None:
    assert [call.prompt_tokens for call in calls_of(row(0, 1, 2), row(9, 1, 2, 3))] == [2 * BLOCK, 3 * BLOCK]


def test_a_sum_that_no_prompt_can_have_is_an_error_with_its_line() -> None:
    huge = {**turn("a", 1), "output_length": MAX_COUNT}

    with pytest.raises(TraceError, match=r"x.*2.*input_length.*longer than any prompt"):
        read(huge, turn("a", 2))


def test_a_length_that_asks_for_millions_of_blocks_that_no_row_lists_is_an_error_with_its_line() -> None:
    largest = {**turn("a", 1), "input_length": BLOCK, "output_length": (MOST_BLOCKS - 2) * BLOCK}
    larger = {**largest, "output_length": (MOST_BLOCKS - 1) * BLOCK}
    later = {**turn("a", 2), "input_length": BLOCK, "is_delta": True}

    assert calls_of(largest, later)[1].prompt_tokens == MOST_BLOCKS * BLOCK
    with pytest.raises(TraceError, match=rf"x.*2.*input_length.*at most {MOST_BLOCKS} blocks of {BLOCK}"):
        read(larger, {**later, "input_length": 2 * BLOCK, "hash_ids": [2, 3]})
