from __future__ import annotations

from rotoscope.replayer.load.draws import generator


def test_each_seed_and_purpose_has_numbers_of_its_own_that_come_again() -> None:
    drawn = {(seed, purpose): generator(seed, purpose).random() for seed in (1, 11, -1) for purpose in ("a", "a 1")}

    assert len(set(drawn.values())) == 6
    assert all(generator(seed, purpose).random() == number for (seed, purpose), number in drawn.items())
