from __future__ import annotations

from rotoscope.traces.phrases import counted


def test_one_stands_alone_and_all_others_take_the_plural() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1000)] == ["0 calls", "1 call", "2 calls", "1,000 calls"]
    assert [counted(number, "branch", "branches") for number in (1, 3)] == ["1 branch", "3 branches"]
