"""Student's t, by which intervals of few sessions are wider than those of many."""

from __future__ import annotations

from math import pi, sqrt, tan
from statistics import NormalDist

CONFIDENCE_PERCENT = 95
"""Of all intervals."""
_P = (100 + CONFIDENCE_PERCENT) / 200
_Z = NormalDist().inv_cdf(_P)


def t_quantile(freedom: int) -> float:
    """Return the quantile of Student's t for a 95 % interval, with so many degrees of freedom, at least 1.

    Source: with 1 and 2 degrees its closed forms, else the expansion in Abramowitz and Stegun, 26.7.5, which is exact to
    two places from 3 on and to three from 5 on.
    """
    if freedom == 1:
        return tan(pi * (_P - 0.5))
    if freedom == 2:
        return (2 * _P - 1) * sqrt(2 / (4 * _P * (1 - _P)))
    z, n = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
