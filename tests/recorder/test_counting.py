from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.counting import (
    MOST_CHARS,
    RUN_CHARS,
    Counted,
    Tally,
    Uncounted,
    WaitingTexts,
    count_within_limits,
)


class Letters:
    """Take each character for a token, and remember what was asked."""

    name = "letters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def longest_run(text: str) -> int:
    """Return the length of the longest stretch of nothing but space or without any."""
    longest = run = 0
    for index, char in enumerate(text):
        run = run + 1 if index and char.isspace() == text[index - 1].isspace() else 1
        longest = max(longest, run)
    return longest


def test_a_usual_text_is_counted_in_one_piece() -> None:
    counter, text = Letters(), "def f(x):\n    return x\n" * 100

    assert count_within_limits(counter, text) == (len(text), True)
    assert counter.asked == [text]


@pytest.mark.parametrize("run", ["a" * 100_000, " " * 100_000, "\n" * 5000, "/+" * 4000, "a" * (RUN_CHARS + 1)])
def test_no_tokenizer_sees_a_long_run(run: str) -> None:
    counter = Letters()

    tokens, is_exact = count_within_limits(counter, f"see {run} here")

    assert (tokens, is_exact) == (len(run) + 9, False)
    assert max(map(longest_run, counter.asked)) <= RUN_CHARS


def test_the_longest_run_that_is_allowed_is_not_cut() -> None:
    counter, text = Letters(), " ".join(["a" * RUN_CHARS] * 3)

    assert count_within_limits(counter, text) == (len(text), True)
    assert counter.asked == [text]


def test_of_a_long_text_the_start_is_counted_and_the_rest_by_ratio() -> None:
    counter, text = Letters(), "word " * MOST_CHARS

    assert count_within_limits(counter, text) == (len(text), False)
    assert sum(map(len, counter.asked)) == MOST_CHARS


@given(st.text(alphabet="a b\n", max_size=60).map(lambda text: text * 60))
def test_nothing_of_a_text_is_lost_where_it_is_cut(text: str) -> None:
    counter = Letters()

    count_within_limits(counter, text)

    assert "".join(counter.asked) == text
    assert all(longest_run(asked) <= RUN_CHARS for asked in counter.asked)


def test_a_part_is_counted_with_its_thinking_apart() -> None:
    assert Tally(Letters()).count([Uncounted(3, "four", "thinking")]) == [Counted(3, 4, 8)]


def test_a_part_with_a_long_run_is_an_estimate() -> None:
    counted = Tally(Letters()).count([Uncounted(0, "a b", "x" * 2000), Uncounted(1, "y" * 2000), Uncounted(2, "z")])

    assert [x.is_estimate for x in counted] == [True, True, False]


def test_a_text_that_comes_again_is_counted_once() -> None:
    counter = Letters()

    counted = Tally(counter).count([Uncounted(0, "same"), Uncounted(1, "same"), Uncounted(2, "same", "same")])

    assert [x.tokens for x in counted] == [4, 4, 4]
    assert counter.asked == ["same"]


def test_a_counted_text_is_remembered_by_no_text() -> None:
    tally = Tally(Letters())
    tally.count([Uncounted(0, "a secret")])

    assert "secret" not in repr(tally._known)


def test_texts_are_handed_out_once_in_their_order() -> None:
    waiting = WaitingTexts()
    waiting.add(0, "first")
    waiting.add(1, "second", "thinking")

    assert waiting.take() == [Uncounted(0, "first"), Uncounted(1, "second", "thinking")]
    assert waiting.take() == []


def test_texts_are_handed_out_in_batches_of_bounded_length() -> None:
    waiting = WaitingTexts()
    for part, text in enumerate(["x" * 8, "x" * 3, "x" * 2, "x" * 9]):
        waiting.add(part, text)

    batches = []
    while batch := waiting.take(5):
        batches.append([text.part for text in batch])

    assert batches == [[0], [1, 2], [3]]


def test_texts_without_any_text_are_not_handed_out() -> None:
    waiting = WaitingTexts()
    waiting.add(0, "", "")

    assert waiting.take() == []


def test_what_comes_on_top_of_a_full_line_stays_uncounted_until_there_is_room() -> None:
    waiting = WaitingTexts(most_chars=10)
    waiting.add(0, "x" * 10)
    waiting.add(1, "y")
    taken = waiting.take()
    waiting.add(2, "z" * 10)

    assert [text.part for text in [*taken, *waiting.take()]] == [0, 2]
    assert waiting.missed == 1


def test_of_a_long_text_no_more_is_kept_than_is_counted() -> None:
    waiting = WaitingTexts()
    waiting.add(0, "w " * MOST_CHARS)

    [kept] = waiting.take()

    assert len(kept.text) == MOST_CHARS
    assert Tally(Letters()).count([kept]) == [Counted(0, 2 * MOST_CHARS, is_estimate=True)]


def test_forgotten_texts_are_gone() -> None:
    waiting = WaitingTexts(most_chars=10)
    waiting.add(0, "x" * 10)

    waiting.forget()
    waiting.add(1, "y" * 10)

    assert [text.part for text in waiting.take()] == [1]


def test_texts_are_not_shown() -> None:
    waiting = WaitingTexts()
    waiting.add(0, "a secret", "a secret")

    assert "secret" not in repr(waiting)
    assert "secret" not in repr(waiting.take())
