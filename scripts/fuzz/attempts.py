"""Many attempts at breaking something, each with an input of its own: how they ended, counted and told."""

from __future__ import annotations

import argparse
import logging
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

LIMIT_S = 5.0
"""Inputs are a few kilobytes and take a millisecond: whatever takes this long hangs."""
MOST_FAILURES = 10
"""What failed so often is given up."""
FAILED = "FAILED"
"""How an outcome begins that must not be; what follows a colon is not counted apart."""


class _Hangs(Exception):
    """Raised into what takes too long."""


def outcome_of(attempt: Callable[[], str]) -> str:
    """Return what an attempt returns, or that it has failed."""
    before = signal.signal(signal.SIGALRM, _raise_hangs)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        return attempt()
    except _Hangs:
        return f"{FAILED}: takes too long"
    except Exception as error:  # noqa: BLE001 - that none comes is what is tested
        return f"{FAILED}: {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise_hangs(_signal: int, _frame: FrameType | None) -> None:
    raise _Hangs


def attempts(
    name: str,
    inputs: int,
    seed: int,
    attempt: Callable[[int, random.Random], str],
    *,
    beside: Callable[[], str] = lambda: "",
) -> int:
    """Make so many attempts and print their outcomes, with what is to be said beside; return how many failed."""
    chance = random.Random(f"{name} {seed}")
    outcomes: Counter[str] = Counter()
    failures = 0
    began = time.perf_counter()
    for number in range(inputs):
        outcome = attempt(number, chance)
        outcomes[outcome.partition(":")[0]] += 1
        failures += outcome.startswith(FAILED)
        if failures == MOST_FAILURES:
            break
    elapsed_s = time.perf_counter() - began
    shown = ", ".join(f"{times:,} {outcome}" for outcome, times in sorted(outcomes.items()))
    print(f"{name}: {outcomes.total():,} inputs{beside()} in {elapsed_s:.0f} s: {shown}", flush=True)
    return failures


def run(about: str | None, kind: str, names: Sequence[str], fuzz: Callable[[str, int, int, Path], int]) -> int:
    """Do this for each of these names, or the one that the command line names by `--kind`; return the exit status."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=20_000, help=f"inputs a {kind}")
    parser.add_argument(f"--{kind}", dest="name", choices=names, help="this one only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="where inputs that fail are saved")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failures = [fuzz(name, asked.inputs, asked.seed, asked.out) for name in names if asked.name in (None, name)]
    return 1 if any(failures) else 0


def keep(out: Path, files: dict[str, bytes], outcome: str) -> None:
    """Save an input that failed."""
    out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (out / name).write_bytes(data)
    print(f"{out / next(iter(files))}: {outcome[:300]}", flush=True)
