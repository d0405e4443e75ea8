"""The whole loop in one command: record an agent, replay its trace, compare with the optimum (`make demo`).

1. `rotoscope serve` plays server and model: a simulator with examples/scripted_model.py behind it.
2. `rotoscope record` records examples/react in front of it: a real agent whose tools do real work.
3. The trace is replayed alone, again on the server that is warm now, and as many sessions at once.

The exit status is 1 when the replay does not reproduce what the server did for the agent, or misses the optimum.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path

from examples.offline import serving
from examples.programs import interruptible, run_command
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.progress import progress_line
from rotoscope.replayer.results import make_folder
from rotoscope.replayer.run import replay
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.summary import Summary
from rotoscope.tables import print_table
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.analysis.profiles import PROFILES
from rotoscope.traces.analysis.statistics import describe, distribution
from rotoscope.traces.errors import RotoscopeError, RunFailed
from rotoscope.traces.model import Trace
from rotoscope.traces.reader import load

ROOT = Path(__file__).parents[1]
ROTOSCOPE = (sys.executable, "-m", "rotoscope")
AGENT = ("-m", "examples.react")
PROFILE = PROFILES["vllm"]
NOTHING = "-"


@dataclass(frozen=True)
class Settings:
    """How the demo runs; with the defaults it takes about a minute."""

    seed: int = 1
    """Of what the model says."""
    speed: str = "200"
    """Times faster than modelled at which the simulator runs."""
    gap_scale: float = 1.0
    """Factor on the recorded tool time in the replays."""
    sessions: int = 16
    concurrency: int = 4


@dataclass(frozen=True)
class Loop:
    """What the loop gave: the recorded run and its three replays."""

    live: Trace
    alone: Summary
    again: Summary
    crowd: Summary


@interruptible
def main() -> int:
    """Run the demo with its defaults and return the exit status."""
    settings = Settings()
    folder = new_folder(ROOT / "results")
    try:
        loop = run(folder, settings)
    except RotoscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    broken = broken_promises(loop)
    show(loop, settings, broken)
    print(f"\ntrace and results: {folder}")
    return 1 if broken else 0


def run(folder: Path, settings: Settings) -> Loop:
    """Record the agent and replay its trace three times, all in front of one simulator; files go to the folder."""
    options = ("--profile", PROFILE.name, "--speed", settings.speed)
    told("serve", "--port", "0", *options, "--script", "examples.scripted_model:answer")
    with serving(*options) as url:
        trace = record(folder, url, settings)
        alone = perform(trace, url, settings)
        again = perform(trace, url, settings)
        crowd = perform(trace, url, settings, sessions=settings.sessions, concurrency=settings.concurrency)
    return Loop(load(trace), alone, again, crowd)


def record(folder: Path, url: str, settings: Settings) -> Path:
    """Record one run of the agent and return the file of its trace."""
    options = ("--upstream", url, "-o", str(folder), "--")
    agent = (*AGENT, "--seed", str(settings.seed))
    told("record", *options, "python", *agent)
    status = run_command((*ROTOSCOPE, "record", *options, sys.executable, *agent), os.environ)
    if status > 128:  # a signal, which was for all of us
        raise SystemExit(status)
    if status != 0:
        raise RunFailed(f"the agent ended with exit status {status}")
    return folder / "run-0001.trace.json"


def perform(trace: Path, url: str, settings: Settings, *, sessions: int = 1, concurrency: int | None = None) -> Summary:
    """Replay the trace and return what was measured.

    Each replay has a salt of its own, so that it finds nothing of an earlier one in the server's cache.
    """
    options = ReplayOptions(
        url=url,
        sessions=sessions,
        concurrency=concurrency,
        gpus=1,
        gaps=Gaps(scale=settings.gap_scale),
        folder=make_folder(None, parent=trace.parent),
    )
    many = ("--sessions", str(sessions), "--concurrency", str(concurrency), "--gpus", "1") if concurrency else ()
    told("replay", str(trace), "--url", url, "--gap-scale", f"{settings.gap_scale:g}", *many, "-o", str(options.folder))
    if sys.stderr.isatty():
        with progress_line(sys.stderr) as watch:
            summary = replay([load(trace)], options, watch=watch)
    else:
        summary = replay([load(trace)], options)
    if summary.interrupted:
        raise KeyboardInterrupt
    if not summary.is_complete:
        raise RunFailed(f"not every session was completed: {options.folder} says why")
    return summary


def broken_promises(loop: Loop) -> list[str]:
    """Return what does not hold of what a replay promises, one sentence each."""
    live = {call.call: call.cached_tokens for call in loop.live.calls()}
    alone, again = cached_tokens(loop.alone), cached_tokens(loop.again)
    broken = []
    for call, tokens in live.items():
        if tokens is None or abs(alone[call] - tokens) > PROFILE.block_size:
            broken.append(f"call {call}: {tokens} tokens cached live, {alone[call]} replayed, more than a block apart")
    for name, summary in (("alone", loop.alone), ("again", loop.again)):
        for result, optimum in zip(summary.request_results, summary.optimal_tokens, strict=True):
            if result.cached_tokens != optimum:
                broken.append(
                    f"call {result.call} {name}: {result.cached_tokens} tokens cached, the optimum is {optimum}"
                )
    if alone != again:
        broken.append("the replay on the warm server does not say the same as the first one")
    return broken


def cached_tokens(summary: Summary) -> dict[int, int]:
    """Return the cached tokens of each call of a replay of one session."""
    return {result.call: result.cached_tokens or 0 for result in summary.request_results}


def show(loop: Loop, settings: Settings, broken: Sequence[str]) -> None:
    """Print the table, where its numbers come from, and whether the promises hold."""
    headings = (
        "",
        "live",
        "replayed alone",
        "again, warm",
        f"{settings.sessions} sessions, {settings.concurrency} at once",
    )
    print()
    print_table(headings, rows(loop), right=range(1, len(headings)))
    print(
        f"\nSIMULATED: all times and hit rates are of a simulator at {settings.speed} times its modelled speed; no model "
        "was computed.\n"
        f"Tools are real; replays wait {settings.gap_scale:g} times as long as they took. Tool time is that of a job with "
        "no request in flight.\n"
        f"Hit rates are cached tokens of prompt tokens, by blocks of {PROFILE.block_size}. The optimum has an infinite cache; "
        "it is planned from\nthe trace for live, and realised, of the requests as they were sent, for replays."
    )
    for sentence in broken:
        print(f"DOES NOT HOLD: {sentence}")
    if not broken:
        print("Replayed alone, each call hits what it hit live, within a block, and exactly what the optimum allows.")
        print("Replayed again on the warm server, it does the same.")


def rows(loop: Loop) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: the live run, then the replays."""
    live = describe(loop.live, Assumptions(profile=PROFILE, preload=False))
    replays = (loop.alone, loop.again, loop.crowd)
    isl, osl = distribution(live.isl), distribution(live.osl)
    yield "calls", str(live.calls), *(str(one.requests.ok) for one in replays)
    yield "ISL, median", f"{isl.median:,.0f}", *(f"{one.isl.p50:,.0f}" if one.isl else NOTHING for one in replays)
    yield "ISL, max", f"{isl.max:,}", *(f"{one.isl.max:,.0f}" if one.isl else NOTHING for one in replays)
    yield "OSL, median", f"{osl.median:,.0f}", *(f"{one.osl.p50:,.0f}" if one.osl else NOTHING for one in replays)
    yield "OSL, max", f"{osl.max:,}", *(f"{one.osl.max:,.0f}" if one.osl else NOTHING for one in replays)
    yield "tool time", seconds(waiting_s(loop.live)), *(seconds(one.mean_waiting_s) for one in replays)
    yield "hit rate", rate(live.live_hit_rate), *(rate(one.cache.hit_rate) for one in replays)
    yield "optimum", rate(live.hit_rate()), *(rate(one.cache.optimal_hit_rate) for one in replays)
    latencies = [one.job_latency_s.mean if one.job_latency_s else None for one in replays]
    yield "job latency", seconds(live.duration_s), *map(seconds, latencies)
    windows = [one.window for one in replays]
    yield "jobs/h/user", NOTHING, *(f"{one.jobs_per_h_per_user:,.0f}" if one else NOTHING for one in windows)
    yield "jobs/h/GPU", NOTHING, *(f"{one.jobs_per_h_per_gpu:,.0f}" if one else NOTHING for one in windows)


def waiting_s(trace: Trace) -> float | None:
    """Return how long the agent had no request in flight: tools at the same time count once."""
    calls_ms = sorted(
        (call.at_ms, call.at_ms + call.duration_ms)
        for call in trace.calls()
        if call.at_ms is not None and call.duration_ms is not None
    )
    ends_ms = accumulate((end_ms for _, end_ms in calls_ms), max)
    gaps_ms = (max(0.0, at_ms - end_ms) for (at_ms, _), end_ms in zip(calls_ms[1:], ends_ms, strict=False))
    return sum(gaps_ms) / 1000 if calls_ms else None


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"


def told(command: str, *options: str) -> None:
    """Show the command that a person would type."""
    line = shlex.join(("rotoscope", command, *options)).replace(f"{Path.cwd()}/", "")
    print(f"\n$ {line}", flush=True)


def new_folder(parent: Path) -> Path:
    """Make the next free folder demo-1, demo-2, ... in the parent."""
    parent.mkdir(exist_ok=True)
    for number in count(1):
        try:
            (parent / f"demo-{number}").mkdir()
        except FileExistsError:
            continue
        return parent / f"demo-{number}"
    raise AssertionError("numbers do not end")


if __name__ == "__main__":
    sys.exit(main())
