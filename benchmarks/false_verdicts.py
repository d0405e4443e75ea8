"""Claim: comparing two runs of the same system at 99 % gives a verdict in at most 2 of 40 cases, and a slower one is found.

Closed loops of 4 sessions in flight are run in virtual time on a modelled server whose speed has spells, which slow all
that is in flight; each pair of runs is compared. Prints for each length of spells and number of sessions how many of the
pairs get a verdict: of the same server, and of one that is slower. All is modelled; no machine is measured. Exits 1 when
the claim does not hold.

    PYTHONPATH=tests python benchmarks/false_verdicts.py [PAIRS] [SESSIONS,SESSIONS...]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from noisy_runs import CONCURRENCY, Machine, replay_on

from rotoscope.replayer.comparison.verdicts import Comparison, compare

PAIRS = 100
SESSIONS = (16, 48, 96, 192)
SPELLS_S = (1.0, 10.0, 60.0)
"""A session takes about 4 s."""
SLOWER = (1.0, 1.05, 1.1)
MOST = 2 / 40


def share_of_verdicts(
    machine: Machine, other: Machine, folder: Path, *, pairs: int, sessions: int
) -> dict[float, float]:
    """Return the share of pairs with a verdict that is true of a slower server, or any for the same, by confidence."""
    found = {95.0: 0, 99.0: 0}
    for _, (a, b) in zip(range(pairs), run_pairs(machine, other, folder, sessions=sessions), strict=False):
        for confidence in found:
            found[confidence] += has_verdict(compare(a, b, confidence_percent=confidence), same=machine == other)
    return {confidence: number / pairs for confidence, number in found.items()}


def run_pairs(machine: Machine, other: Machine, folder: Path, *, sessions: int) -> Iterator[tuple[Path, Path]]:
    for number in count():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            a, b = Path(place) / "a", Path(place) / "b"
            replay_on(machine, a, noise=2 * number, sessions=sessions)
            replay_on(other, b, noise=2 * number + 1, sessions=sessions)
            yield a, b


def has_verdict(comparison: Comparison, *, same: bool) -> bool:
    verdicts = {one.verdict for one in comparison.points[0].numbers}
    return bool(verdicts & {"better", "worse"}) if same else "worse" in verdicts


def main(pairs: int, all_sessions: tuple[int, ...]) -> int:
    holds = True
    print(f"{pairs} pairs a row, {CONCURRENCY} sessions in flight, modelled; verdicts of 100 pairs at 95 % and at 99 %")
    with tempfile.TemporaryDirectory() as folder:
        for spell_s in SPELLS_S:
            for sessions in all_sessions:
                machine = Machine(spell_s=spell_s)
                shares = {
                    slower: share_of_verdicts(
                        machine,
                        Machine(spell_s=spell_s, slowness=slower),
                        Path(folder),
                        pairs=pairs,
                        sessions=sessions,
                    )
                    for slower in SLOWER
                }
                told = (f"{slower:g} x: {100 * one[95.0]:.0f}, {100 * one[99.0]:.0f}" for slower, one in shares.items())
                print(f"spells {spell_s:g} s, {sessions} sessions   {'   '.join(told)}", flush=True)
                holds = holds and shares[1.0][99.0] <= MOST
    print("holds" if holds else "DOES NOT HOLD")
    return 0 if holds else 1


if __name__ == "__main__":
    numbers = tuple(map(int, sys.argv[2].split(","))) if len(sys.argv) > 2 else SESSIONS
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS, numbers))
