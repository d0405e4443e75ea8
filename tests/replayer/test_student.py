from __future__ import annotations

import pytest

from rotoscope.replayer.student import t_quantile


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (7, 2.365), (19, 2.093), (1000, 1.962)]
)
def test_students_t_is_that_of_the_tables(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, rel=0.005 if freedom == 3 else 0.0005)
