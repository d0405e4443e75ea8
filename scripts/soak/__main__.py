"""Let hostile clients and a hostile server meet in the gateway, many times, and see that it stays what it was.

    python -m scripts.soak proxy --calls 100000     # `rotoscope proxy`: memory, descriptors, bytes, and every call in a trace
    python -m scripts.soak kill --rounds 20         # the same, killed at a random moment, and recovered
    python -m scripts.soak record --calls 2000      # `rotoscope record` of a command that makes such calls
    python -m scripts.soak open-run --calls 4000    # what an open run takes in memory, a call

From the root of a checkout, on Linux. Ends by itself; exits with 1 when something is not as it should be. A run is
repeated by its seed, as far as what is planned goes: times and the order of events are those of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

from scripts.soak import modes
from scripts.soak.dialects import not_spoken
from scripts.soak.modes import Settings


def main() -> int:
    """Run one kind of soak; return the exit status."""
    settings, run = _read()
    if missing := not_spoken():
        print(f"dialects that are recorded and not spoken here: {', '.join(sorted(missing))}")
        return 1
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        work = Path(folder) if settings.work is None else settings.work
        work.mkdir(parents=True, exist_ok=True)
        problems = asyncio.run(run(settings, work))
    for problem in problems[:20]:
        print(f"PROBLEM: {problem}")
    print("all as it should be" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def _read() -> tuple[Settings, Callable[[Settings, Path], Coroutine[None, None, list[str]]]]:
    parser = argparse.ArgumentParser(prog="python -m scripts.soak", description=(__doc__ or "").partition("\n")[0])
    kinds = {"proxy": modes.proxy, "kill": modes.kill, "record": modes.record, "open-run": modes.open_run}
    parser.add_argument("kind", choices=[*kinds, "agent"])
    parser.add_argument("--calls", type=int, help="how many requests, by default 100,000; 200 a round of kill")
    parser.add_argument("--rounds", type=int, default=20, help="how often to kill")
    parser.add_argument("--calls-a-run", type=int, default=200)
    parser.add_argument("--runs-at-once", type=int, default=12)
    parser.add_argument("--clients", type=int, default=6, help="how many clients a run has")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--big", type=float, default=1 / 4000, help="the share of requests of 20 to 100 MB")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds after which a run has ended")
    parser.add_argument("--windows", type=int, default=10, help="lines of the table")
    parser.add_argument("--quick", action="store_true", help="do not wait for rests and say nothing of growth")
    parser.add_argument("--tokenizer", default="auto", help="as for rotoscope proxy")
    parser.add_argument("--work", type=Path, help="folder for what is written, kept afterwards")
    parser.add_argument("--ledger", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    calls = given.calls or {"kill": 200, "record": 2000, "open-run": 4000}.get(given.kind, 100_000)
    settings = Settings(
        calls=calls,
        rounds=given.rounds,
        calls_a_run=given.calls_a_run,
        runs_at_once=given.runs_at_once,
        clients=given.clients,
        seed=given.seed,
        big_share=given.big,
        idle_s=given.idle,
        windows=given.windows,
        is_quick=given.quick,
        tokenizer=given.tokenizer,
        work=given.work,
        ledger=given.ledger,
    )
    return settings, kinds.get(given.kind, modes.agent)


if __name__ == "__main__":
    sys.exit(main())
