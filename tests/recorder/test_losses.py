from __future__ import annotations

from typing import get_args

from rotoscope.recorder.losses import PHRASES, Loss, phrased


def test_only_what_there_is_some_of_is_in_words() -> None:
    assert phrased({"spans": 2, "marks": 1, "agents": 0}) == (
        "marks that did not reach the gateway: 1; spans that were lost: 2"
    )
    assert phrased({}) == ""


def test_each_loss_has_a_phrase() -> None:
    assert set(PHRASES) == set(get_args(Loss))
