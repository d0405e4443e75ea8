"""How benchmarks that hold one cost against another are run, and how they say whether a claim holds."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any


def run(measure: Callable[[int, Path], Coroutine[Any, Any, bool]], rounds: int) -> None:
    """Measure in as many rounds as the command line says, with a folder for files; exit with 1 when a claim fails."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else rounds
    with tempfile.TemporaryDirectory() as folder:
        holds = asyncio.run(measure(rounds, Path(folder)))
    sys.exit(0 if holds else 1)


def holds(what: str, costs_s: Mapping[str, float], most: float) -> bool:
    """Print two costs in seconds, by name, and the second's ratio to the first; return whether that is at most `most`."""
    (less, less_s), (more, more_s) = costs_s.items()
    ratio = more_s / less_s
    verdict = "holds" if ratio <= most else "DOES NOT HOLD"
    print(
        f"{what}: {less} {less_s * 1e6:.0f} us, {more} {more_s * 1e6:.0f} us, ratio {ratio:.2f} (at most {most}): {verdict}"
    )
    return ratio <= most
