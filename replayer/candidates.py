"""What may serve as a word: texts that are one token in many vocabularies, all of one family equally long in bytes.

The rarest are never needed: a few hundred words are enough for a run, so the most usual of a vocabulary are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

_CONSONANTS = "bcdfghjklmnpqrstvwxyz"
_VOWELS = "aeiou"
_COMMON = """
the and for are but not you all any can had her was one our out day get has him his how man new now old see two way who
did its let put say she too use big end far few got job lot may men off own run set six ten top try war why yes act add
age ago air arm art ask bad bag bar bed bit box boy buy car cat cup cut die dog dry due eat egg eye fit fly fun gas god
gun guy hit hot ice key kid law lay leg lie low map mix net oil pay per pop raw red row sea sit sky son sun tax tea toy
via web win yet
"""
COMMON = tuple(f" {word}" for word in _COMMON.split())
"""Words for a server that says nothing about its tokens: usual enough to be one in any vocabulary of the field."""


def families() -> Sequence[Sequence[str]]:
    """Return the families of candidates, the one that suits most vocabularies first."""
    letters = [" " + "".join(word) for word in product(_CONSONANTS, _VOWELS, _CONSONANTS)]
    return list(dict.fromkeys((*COMMON, *letters))), _characters(0x4E00, 0x9FFF), _characters(0xAC00, 0xD7A3)


def _characters(first: int, last: int) -> list[str]:
    """Return characters of a block of Unicode, which are three bytes each, one in four."""
    return [chr(code) for code in range(first, last, 4)]
