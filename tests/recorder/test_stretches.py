from __future__ import annotations

from rotoscope.recorder.hashing import KeyedHash, new_key
from rotoscope.recorder.stretches import MOST_ALIKE, Stretches
from rotoscope.traces.journal import text_border_ends

TEXT = bytes(range(256)) * 8


class Known:
    """Stretches behind the start of prompts."""

    def __init__(self) -> None:
        self.keyed = KeyedHash(new_key())
        self.stretches = Stretches(self.keyed)
        self.parts = 0

    def learn(self, text: bytes) -> None:
        self.stretches.learn(b"domain", self.parts, text, self.keyed.borders(text, text_border_ends(len(text))))
        self.parts += 1

    def step(self, text: bytes) -> tuple[int | None, int]:
        step = self.stretches.step(b"domain", text)
        return (None if step.whole is None else step.whole.part), step.shared


def test_the_longest_stretch_that_a_text_begins_with_is_found() -> None:
    known = Known()
    for length in (10, 100, 700):
        known.learn(TEXT[:length])

    assert known.step(TEXT[:1000]) == (2, 700)
    assert known.step(TEXT[:700]) == (2, 700)
    assert known.step(TEXT[:699]) == (1, 672)
    assert known.step(TEXT[:20]) == (0, 10)
    assert known.step(b"else") == (None, 0)


def test_a_stretch_that_goes_on_otherwise_is_shared_up_to_a_border() -> None:
    known = Known()
    known.learn(TEXT)
    known.learn(TEXT[:100])

    assert known.step(TEXT[:1000] + b"other") == (1, 992)


def test_only_the_latest_of_many_are_told_apart() -> None:
    known = Known()
    for number in range(MOST_ALIKE + 1):
        known.learn(TEXT[:100] + number.to_bytes(2))

    assert known.step(TEXT[:100] + (0).to_bytes(2))[0] is None
    assert known.step(TEXT[:100] + (1).to_bytes(2))[0] == 1


def test_nothing_is_known_when_it_is_forgotten() -> None:
    known = Known()
    known.learn(TEXT)
    known.stretches.forget()

    assert known.step(TEXT) == (None, 0)
