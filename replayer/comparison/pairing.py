"""The sessions that runs have in common: session i performs the same trace in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.replayer.reading import Results
from rotoscope.traces.errors import UnusableInput


@dataclass(frozen=True, slots=True)
class Pairing:
    """Sessions that every run has."""

    order: tuple[int, ...]
    """Their numbers, as the first run let them in."""
    completed: frozenset[int]
    """Those that were completed in every run."""
    left_out: int
    """Sessions that some runs have and others have not, because time was over."""


def pair(runs: Sequence[Results]) -> Pairing:
    """Pair the sessions of runs; raise UnusableInput where a number stands for different traces."""
    numbers = [{one.session for one in run.sessions} for run in runs]
    shared = set.intersection(*numbers)
    completed = frozenset(
        set.intersection(*({one.session for one in run.sessions if one.status == "ok"} for run in runs))
    )
    for run in runs[1:]:
        _check_same(runs[0], run, completed)
    first = sorted(runs[0].sessions, key=lambda one: (one.admitted_s, one.session))
    order = tuple(one.session for one in first if one.session in shared)
    return Pairing(order, completed, len(set.union(*numbers)) - len(shared))


def _check_same(one: Results, other: Results, completed: frozenset[int]) -> None:
    mine, others = _performed(one), _performed(other)
    for number in sorted(completed):
        if mine[number] != others[number]:
            raise UnusableInput(
                f"session {number} performs other calls in one run than in another: replay both with the same traces"
            )


def _performed(run: Results) -> dict[int, set[tuple[int, ...]]]:
    """Return the trace of each session, and its calls with their planned lengths."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for one in run.requests:
        lengths = one.planned_prompt_tokens, one.planned_completion_tokens
        found.setdefault(one.session, set()).add((one.trace, one.call, *lengths))
    return found
