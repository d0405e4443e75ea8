"""Claim: a token that the simulated engine generates at batch 16 takes at least 10 times less CPU where nobody looks at
each one, so that steps are taken together, than where every step is awaited by itself, as it is over HTTP.

Prints the CPU time a token of both, medians of rounds taken in turns, and their ratio; exits 1 when it is less than 10.
Sixteen clients ask at a time, each for answers of 100 to 900 tokens one after the other. Then, without a limit, what a
replay in modelled time costs a session, all that is around the engine included: 64 sessions of recorded traces, 16 in
flight, batch 16.

    python benchmarks/modelled_time.py
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import numpy as np

from rotoscope.replayer.modelled_run import replay_modelled
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.modelled_time import ModelledClock, run_modelled
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.replayer.simulator.server import SimulatorOptions, fleet_of
from rotoscope.traces.formats.recognise import open_traces

BATCH = 16
ANSWERS = 12
"""Of each client."""
PROMPT_TOKENS = 200
ROUNDS = 7
LIMIT = 10
SESSIONS = 64
OPTIONS = SimulatorOptions(blocks=16384, max_batch=BATCH)
EXAMPLES = Path(__file__).parents[1] / "examples/traces"
REFERENCE = Path(os.environ.get("ROTOSCOPE_DATA", "../shared/data")) / "trtllm/matplotlib__matplotlib-23412.trace.json"


def cost_of_a_token_s(*, looked_at: bool) -> float:
    """Return the CPU seconds that a token costs, engine and clients together."""

    answers = [list(answers_of(number, looked_at=looked_at)) for number in range(BATCH)]

    async def run() -> float:
        fleet = fleet_of(OPTIONS, ModelledClock)
        running = asyncio.create_task(fleet.run())
        start_s = time.process_time()
        await asyncio.gather(*(client(fleet.replicas[0].engine, asked) for asked in answers))
        used_s = time.process_time() - start_s
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return used_s / fleet.replicas[0].engine.scheduler.counts.generated_tokens

    return run_modelled(run())


def answers_of(number: int, *, looked_at: bool) -> Iterator[Generation]:
    """Yield what a client asks for."""
    rng = np.random.default_rng(number)
    for _ in range(ANSWERS):
        prompt = rng.integers(0, 1 << 30, PROMPT_TOKENS, np.uint32)
        answer = rng.integers(0, 1 << 30, int(rng.integers(100, 901)), np.uint32)
        yield Generation(prompt, answer, awaited=None if looked_at else ())


async def client(engine: Engine, asked: Sequence[Generation]) -> None:
    """Ask for one answer after the other."""
    for generation in asked:
        async with aclosing(engine.generate([generation])) as progress:
            async for _ in progress:
                pass


def cost_of_a_session_s(path: Path, folder: Path) -> tuple[float, float, float]:
    """Return the CPU seconds of a session and of a call, and the modelled seconds of the whole replay."""
    traces = [one.trace for one in open_traces([str(path)])]
    options = ReplayOptions(sessions=SESSIONS, concurrency=BATCH, folder=folder, salt="benchmark")
    start_s = time.process_time()
    summary = replay_modelled(traces, options, SimulatorOptions(blocks=65536, max_batch=BATCH))
    used_s = time.process_time() - start_s
    return used_s / SESSIONS, used_s / summary.requests.ok, summary.duration_s


def main() -> None:
    """Print what both costs; exit with 1 when the claim does not hold."""
    singly, together = [], []
    for _ in range(ROUNDS):
        singly.append(cost_of_a_token_s(looked_at=True))
        together.append(cost_of_a_token_s(looked_at=False))
    ratio = statistics.median(one / other for one, other in zip(singly, together, strict=True))
    verdict = "holds" if ratio >= LIMIT else "DOES NOT HOLD"
    print(
        f"CPU a token at batch {BATCH}: every step awaited {1e6 * statistics.median(singly):.2f} us, "
        f"together {1e6 * statistics.median(together):.3f} us, ratio {ratio:.1f} (at least {LIMIT}): {verdict}"
    )
    for path in (EXAMPLES / "react", EXAMPLES / "deep_research", REFERENCE):
        if not path.exists():
            print(f"{path.name}: not here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            session_s, call_s, modelled_s = cost_of_a_session_s(path, Path(folder))
        print(
            f"{path.name}: {1e3 * session_s:.1f} ms of CPU a session, {1e3 * call_s:.2f} ms a call; "
            f"{SESSIONS} sessions are {modelled_s:,.0f} modelled seconds"
        )
    sys.exit(0 if ratio >= LIMIT else 1)


if __name__ == "__main__":
    main()
