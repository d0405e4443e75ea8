from __future__ import annotations

import pytest

from rotoscope.replayer.student import t_quantile


@pytest.mark.parametrize(("freedom", "expected"), [(2, 4.303), (7, 2.365), (19, 2.093), (1000, 1.962)])
def test_students_t_is_that_of_the_tables(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, rel=0.01 if freedom < 5 else 0.001)
