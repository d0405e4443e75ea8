"""What a gate says of a run, and what all of them together make of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from rotoscope.traces.errors import UnusableInput

GateName: TypeAlias = Literal[
    "output-lengths",
    "prompt-lengths",
    "errors",
    "lag",
    "jobs",
    "above-optimum",
    "below-optimum",
    "counters",
]
GATES: tuple[GateName, ...] = get_args(GateName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition of a valid run; docs/metrics.md gives the unit of each."""

    name: GateName
    passed: bool | None
    """None where it could not be checked, or was not to be."""
    measured: float | None = None
    limit: float | None = None
    says: str | None = None
    """Why it failed or was not checked."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Whether the numbers of a run are what they seem."""

    valid: bool
    """No gate failed."""
    gates: tuple[Gate, ...]

    @classmethod
    def of(cls, gates: Iterable[Gate]) -> Validity:
        """Return what gates make of a run."""
        gates = tuple(gates)
        return cls(all(gate.passed is not False for gate in gates), gates)

    @property
    def failed(self) -> tuple[Gate, ...]:
        """Return the gates that failed."""
        return tuple(gate for gate in self.gates if gate.passed is False)

    @property
    def unchecked(self) -> tuple[Gate, ...]:
        """Return the gates that were not checked."""
        return tuple(gate for gate in self.gates if gate.passed is None)


def unchecked(name: GateName, why: str) -> Gate:
    """Return a gate that could not be checked."""
    return Gate(name=name, passed=None, says=why)


def at_most(name: GateName, measured: float, limit: float, says: str) -> Gate:
    """Return a gate that passes up to a limit; `says` is for what is above it."""
    passed = measured <= limit
    return Gate(name=name, passed=passed, measured=round(measured + 0.0, 6), limit=limit, says=None if passed else says)


def at_least(name: GateName, measured: float, limit: float, says: str) -> Gate:
    """Return a gate that passes from a limit on; `says` is for what is below it."""
    passed = measured >= limit
    return Gate(name=name, passed=passed, measured=round(measured + 0.0, 6), limit=limit, says=None if passed else says)


def gates_named(names: Iterable[str]) -> tuple[GateName, ...]:
    """Return the gates of these names, each once; raise UnusableInput for one that there is not."""
    names = set(names)
    for name in sorted(names - set(GATES)):
        raise UnusableInput(f"no gate {name!r}: choose of {', '.join(GATES)}")
    return tuple(gate for gate in GATES if gate in names)
