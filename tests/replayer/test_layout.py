from __future__ import annotations

import numpy as np

from rotoscope.replayer.layout import PLAIN, Layout


def test_fixed_tokens_stand_at_their_positions_of_the_prompt() -> None:
    ids = np.array([90, 91], np.uint32)
    layout = Layout(fixed=((10, ids), (14, ids[:1])), lead=2)

    assert layout.fix(np.arange(6, dtype=np.uint32), 10).tolist() == [90, 91, 2, 3, 90, 5]


def test_without_fixed_tokens_all_are_drawn() -> None:
    assert PLAIN.fix(np.arange(3, dtype=np.uint32), 10).tolist() == [0, 1, 2]
