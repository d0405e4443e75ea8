"""Claim: comparing two runs of the same system at 99 % gives a verdict in at most 2 of 40 cases.

Closed loops of 4 sessions in flight are run in virtual time on a modelled server whose speed has spells of 5 %, which slow
all that is in flight, and whose requests differ by 20 %; each pair of runs is compared. Prints how many of 100 pairs get a
verdict: of the same server, for several lengths of spells and numbers of sessions; of one that is slower, also where spells
are of 2 % and requests differ by 10 % (steady); and of one that is another from run to run. All is modelled, no machine is
measured. Exits 1 when the claim does not hold.

    PYTHONPATH=tests python benchmarks/false_verdicts.py [PAIRS]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from noisy_runs import CONCURRENCY, Machine, replay_on

from rotoscope.replayer.comparison.verdicts import Comparison, compare

PAIRS = 100
SESSIONS = (16, 48, 96, 192)
SPELLS_S = (1.0, 10.0, 60.0)
"""A session takes about 4 s."""
SLOWER = (1.05, 1.1)
SESSIONS_OF_SLOWER = (96, 192)
STEADY = Machine(spell_s=10.0, spell_share=0.02, request_share=0.1)
CONFIDENCE = (95.0, 99.0)
MOST = 2 / 40


def shares_of_verdicts(one: Machine, other: Machine, *, pairs: int, sessions: int, repeats: int = 1) -> list[float]:
    """Return the share of pairs with a verdict, for each confidence: any of the same server, `worse` of another."""
    found = dict.fromkeys(CONFIDENCE, 0)
    for pair in range(pairs):
        with tempfile.TemporaryDirectory() as name:
            a, b = Path(name) / "a", Path(name) / "b"
            for number in range(repeats):
                noise = 2 * (pair * repeats + number)
                replay_on(one, a / f"{number}", noise=noise, sessions=sessions)
                replay_on(other, b / f"{number}", noise=noise + 1, sessions=sessions)
            for confidence in CONFIDENCE:
                found[confidence] += _has_verdict(compare(a, b, confidence_percent=confidence), same=one == other)
    return [number / pairs for number in found.values()]


def _has_verdict(comparison: Comparison, *, same: bool) -> bool:
    verdicts = {one.verdict for one in comparison.points[0].numbers}
    return bool(verdicts & {"better", "worse"}) if same else "worse" in verdicts


def _told(name: str, shares: list[float]) -> None:
    at_95, at_99 = (f"{100 * share:.0f}" for share in shares)
    print(f"{name:<50} {at_95:>4} at 95 %   {at_99:>4} at 99 %", flush=True)


def main(pairs: int) -> int:
    print(f"verdicts of 100 pairs; {pairs} pairs a line, {CONCURRENCY} sessions in flight, modelled")
    false = 0.0
    for spell_s in SPELLS_S:
        for sessions in SESSIONS:
            machine = Machine(spell_s=spell_s)
            shares = shares_of_verdicts(machine, machine, pairs=pairs, sessions=sessions)
            _told(f"the same server, spells of {spell_s:g} s, {sessions} sessions", shares)
            false = max(false, shares[-1])
    for slowness in SLOWER:
        for sessions in SESSIONS_OF_SLOWER:
            for name, machine in (("", Machine(spell_s=10.0)), ("steady, ", STEADY)):
                slower = replace(machine, slowness=slowness)
                shares = shares_of_verdicts(machine, slower, pairs=pairs, sessions=sessions)
                _told(f"{name}{slowness:g} times as slow, spells of 10 s, {sessions} sessions", shares)
    machine = replace(STEADY, run_share=0.03)
    for repeats in (1, 3):
        shares = shares_of_verdicts(machine, machine, pairs=pairs, sessions=96, repeats=repeats)
        _told(f"steady, 3 % from run to run, 96 sessions, {repeats} runs a side", shares)
    print("holds" if false <= MOST else "DOES NOT HOLD")
    return 0 if false <= MOST else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS))
