from __future__ import annotations

from rotoscope.replayer.candidates import COMMON, families
from rotoscope.replayer.words import Words


def test_every_family_can_be_a_table_of_words() -> None:
    for family in (COMMON, *families()):
        assert len(Words(family)) == len(family) > 100


def test_words_of_letters_come_first() -> None:
    first, *others = families()

    assert all(word[0] == " " and word[1:].isalpha() and word.islower() for word in first)
    assert all(len(word) == 1 for family in others for word in family)


def test_common_words_are_of_the_first_family() -> None:
    assert set(COMMON) <= set(families()[0])
