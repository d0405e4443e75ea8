from __future__ import annotations

import numpy as np
import pytest

from rotoscope.replayer.tokens import Vocabulary
from rotoscope.replayer.words import Words


def test_words_of_letters_have_a_space_before_each() -> None:
    words = Words([" the", " cat", " sat"])

    assert words.text(np.array([1, 2, 1], np.uint32)) == b" cat sat cat"
    assert (words.bytes, words.space, len(words), words.vocabulary) == (4, 1, 3, Vocabulary(0, 3))


def test_characters_stand_side_by_side() -> None:
    words = Words(["一", "丁"])

    assert words.text(np.array([1, 0], np.uint32)).decode() == "丁一"
    assert (words.bytes, words.space) == (3, 0)


def test_a_word_has_one_number_within_a_message_and_the_same_at_its_start() -> None:
    words = Words([" the", " cat"])

    assert words.numbers == {" the": 0, " cat": 1}
    assert words.first_numbers == {"the": 0, "cat": 1}


@pytest.mark.parametrize("words", [[" the", " than"], [" the", " the"]])
def test_words_of_different_lengths_and_words_given_twice_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match="words of one length, each once"):
        Words(words)
