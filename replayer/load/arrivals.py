"""How the sessions of an open loop are spread in time: evenly, at random, or in bursts, at the same mean rate.

The times between arrivals have a gamma distribution of mean 1 / rate; with a coefficient of variation (CV) of 1 it is
the exponential one, and arrivals are a Poisson process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Literal, Self, TypeAlias

from rotoscope.replayer.load.draws import generator
from rotoscope.traces.errors import UnusableInput

Kind: TypeAlias = Literal["constant", "poisson", "gamma"]

LARGEST_CV = 100.0
"""Above, nearly all times between arrivals are 0."""
SMALLEST_CV = 0.001
"""Below, they are as good as constant, and nobody can draw them."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The distribution of the times between arrivals."""

    kind: Kind
    cv: float
    """Coefficient of variation of these times: 0 evenly, 1 as by chance, above in bursts."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `constant`, `poisson` or `gamma:CV`; raise UnusableInput for anything else."""
        match text.partition(":"):
            case ("constant", "", ""):
                return cls("constant", 0.0)
            case ("poisson", "", ""):
                return cls("poisson", 1.0)
            case ("gamma", ":", cv):
                return cls("gamma", _cv(cv))
            case ("gamma", _, _):
                raise UnusableInput("gamma arrivals take a coefficient of variation, such as gamma:2")
        raise UnusableInput(f"no arrivals {text!r}: choose one of constant, poisson, gamma:CV, recorded")

    def __str__(self) -> str:
        return f"gamma:{self.cv:g}" if self.kind == "gamma" else self.kind

    def times_s(self, *, rate_per_s: float, seed: int) -> Iterator[float]:
        """Yield without end when sessions arrive, the first at 0."""
        mean_s = 1.0 / rate_per_s
        if not self.cv:
            return (number * mean_s for number in count())
        draws = generator(seed, "arrivals")
        shape, scale_s = self.cv**-2, self.cv**2 * mean_s
        return accumulate((draws.gammavariate(shape, scale_s) for _ in count()), initial=0.0)


POISSON = Arrivals("poisson", 1.0)


def _cv(text: str) -> float:
    try:
        cv = float(text)
    except ValueError:
        cv = 0.0
    if not SMALLEST_CV <= cv <= LARGEST_CV:
        raise UnusableInput(
            f"the CV of gamma arrivals must be at least {SMALLEST_CV:g} and at most {LARGEST_CV:g}, not {text!r}"
        )
    return cv
