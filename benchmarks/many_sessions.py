"""One process holds 10,000 sessions that wait in gaps: at most 40 KB each, lags of 20 ms at most (p99).

Each session sends six requests with gaps of 50 s between them, so that nearly all of 10,000 sessions wait at any time and
about 200 requests a second are sent, to a server in a process of its own that answers at once. In a closed loop the
sessions are let in over a ramp of 50 s, in an open loop at 200 a second. Memory is what the process has grown by since
before the first session, over the sessions in flight, at the worst moment at which nearly all of them were.

Beside them a naive client does the same: an asyncio task a session, aiohttp, the prompt as a list that grows, a body
encoded by json.

Run: python -m benchmarks.many_sessions [--sessions N] [--gap S] [--traces PATH] [--only closed|open|naive]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotoscope.traces import Trace

SESSIONS = 10_000
GAP_S = 50.0
TURNS = 6
PROMPT_TOKENS = 1000
NEW_TOKENS = 236
OUTPUT_TOKENS = 64
MOST_KB = 40.0
MOST_LAG_S = 0.02
_NEARLY_ALL = 0.95
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a client is to do."""

    kind: str
    url: str
    sessions: int
    gap_s: float
    traces: str


@dataclass(slots=True)
class Memory:
    """What this process holds while sessions run."""

    before_bytes: int
    most_running: int = 0
    samples: list[tuple[int, int]] | None = None

    @classmethod
    def begin(cls) -> Memory:
        return cls(resident_bytes(), 0, [])

    def see(self, running: int) -> None:
        assert self.samples is not None
        self.most_running = max(self.most_running, running)
        self.samples.append((running, resident_bytes()))

    def bytes_a_session(self) -> float:
        """Return the most that a session took while nearly all were there."""
        assert self.samples is not None
        enough = _NEARLY_ALL * self.most_running
        return max(
            (held - self.before_bytes) / running for running, held in self.samples if running and running >= enough
        )


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured_replay(load: Load) -> dict[str, object]:
    """Replay and return what it took."""
    from rotoscope.replayer.lanes import Progress
    from rotoscope.replayer.load.arrivals import Arrivals
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.run import replay
    from rotoscope.replayer.schedule import Gaps
    from rotoscope.testing import make_trace
    from rotoscope.traces.formats.recognise import open_traces

    if load.traces:
        traces = [one.trace for one in open_traces([load.traces])]
        gaps = Gaps(scale=load.gap_s / mean_gap_s(traces))
    else:
        ms = 1000 * load.gap_s
        traces = [make_trace(turns=TURNS, isl=PROMPT_TOKENS, osl=OUTPUT_TOKENS, new=NEW_TOKENS, tool_ms=ms)]
        gaps = Gaps()
    memory = None

    def watch(progress: Progress) -> None:
        nonlocal memory
        memory = memory or Memory.begin()
        memory.see(progress.sessions_running)

    with tempfile.TemporaryDirectory() as folder:
        options = ReplayOptions(url=load.url, sessions=load.sessions, gaps=gaps, folder=Path(folder) / "out", gpus=1)
        if load.kind == "closed":
            options = replace(options, concurrency=load.sessions, ramp_s=load.gap_s)
        else:
            options = replace(options, rate_per_h=3600 * load.sessions / load.gap_s, arrivals=Arrivals.parse("poisson"))
        start_s, used_s = time.monotonic(), cpu_s()
        summary = replay(traces, options, watch=watch)
    assert memory is not None
    client = summary.client
    assert client.request_lag_s
    assert client.loop_delay_s
    return {
        "sessions": summary.sessions.ok,
        "requests": summary.requests.ok,
        "most_running": memory.most_running,
        "kb": memory.bytes_a_session() / 1000,
        "start_lag_s": [summary.schedule_lag_s.p50, summary.schedule_lag_s.p99, summary.schedule_lag_s.max]
        if summary.schedule_lag_s
        else None,
        "request_lag_s": [client.request_lag_s.p50, client.request_lag_s.p99, client.request_lag_s.max],
        "loop_delay_s": [client.loop_delay_s.p50, client.loop_delay_s.p99, client.loop_delay_s.max],
        "cpu_share": client.cpu_share,
        "cpu_s": cpu_s() - used_s,
        "run_s": summary.duration_s,
        "wall_s": time.monotonic() - start_s,
    }


def mean_gap_s(traces: Sequence[Trace]) -> float:
    """Return the recorded time of tools and waits over the calls that come after others."""
    from rotoscope.traces import ToolCall, Wait

    waits_ms = sum(one.duration_ms for trace in traces for one in trace.events if isinstance(one, ToolCall | Wait))
    return waits_ms / 1000 / sum(len([*trace.calls()]) - 1 for trace in traces)


class Naive:
    """A client as one would write it in an hour."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._running = 0
        self._requests = 0
        self._lags_s = array("d")
        self._start_lags_s = array("d")

    async def run(self) -> dict[str, object]:
        import aiohttp

        load, draws = self._load, random.Random(0)
        starts = sorted(draws.random() * load.gap_s for _ in range(load.sessions))
        memory, used_s, start_s = Memory.begin(), cpu_s(), time.monotonic()
        self._start_s = asyncio.get_running_loop().time()
        watching = asyncio.create_task(self._watch(memory))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http, asyncio.TaskGroup() as group:
            for at_s in starts:
                await asyncio.sleep(max(0.0, self._start_s + at_s - asyncio.get_running_loop().time()))
                group.create_task(self._session(http, self._start_s + at_s))
        watching.cancel()
        wall_s = time.monotonic() - start_s
        return {
            "sessions": load.sessions,
            "requests": self._requests,
            "most_running": memory.most_running,
            "kb": memory.bytes_a_session() / 1000,
            "start_lag_s": percentiles(self._start_lags_s),
            "request_lag_s": percentiles(self._lags_s),
            "loop_delay_s": None,
            "cpu_share": (cpu_s() - used_s) / wall_s,
            "cpu_s": cpu_s() - used_s,
            "run_s": wall_s,
            "wall_s": wall_s,
        }

    async def _watch(self, memory: Memory) -> None:
        while True:
            memory.see(self._running)
            await asyncio.sleep(0.25)

    async def _session(self, http, due_s: float) -> None:  # type: ignore[no-untyped-def]
        loop = asyncio.get_running_loop()
        self._running += 1
        self._start_lags_s.append(loop.time() - due_s)
        prompt = [random.randrange(1000, 30_000) for _ in range(PROMPT_TOKENS)]
        for turn in range(TURNS):
            body = {"model": "mock-model", "prompt": prompt, "max_tokens": OUTPUT_TOKENS, "stream": True}
            body |= {"return_token_ids": True, "stream_options": {"include_usage": True}}
            self._lags_s.append(loop.time() - due_s)
            async with http.post(f"{self._load.url}/v1/completions", json=body) as response:
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        for choice in json.loads(line[6:])["choices"]:
                            prompt += choice.get("token_ids") or []
            self._requests += 1
            due_s = loop.time() + self._load.gap_s
            if turn < TURNS - 1:
                prompt += [random.randrange(1000, 30_000) for _ in range(NEW_TOKENS)]
                await asyncio.sleep(self._load.gap_s)
        self._running -= 1


def percentiles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]]


@contextmanager
def instant_server() -> Iterator[str]:
    """Run a server that answers at once; yield its URL."""
    command = [sys.executable, "-m", "benchmarks.instant_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()


def in_a_process_of_its_own(load: Load) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.many_sessions", "--child", load.kind, "--url", load.url]
    command += ["--sessions", str(load.sessions), "--gap", str(load.gap_s), "--traces", load.traces]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def show(kind: str, result: dict[str, object]) -> None:
    print(
        f"{kind}: {result['sessions']} sessions, {result['requests']} requests, {result['most_running']} in flight at most, "
        f"{result['kb']:.1f} KB each"
    )
    for name in ("start_lag_s", "request_lag_s", "loop_delay_s"):
        values = result[name]
        if isinstance(values, list):
            p50, p99, most = (1000 * value for value in values)
            print(
                f"  {name.removesuffix('_s').replace('_', ' ')}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {most:.1f} ms"
            )
    print(
        f"  CPU {result['cpu_s']:.1f} s, {100 * float(str(result['cpu_share'])):.0f} % of a core over {result['run_s']:.0f} s, "
        f"{result['wall_s']:.0f} s with all that follows",
        flush=True,
    )


def holds(result: dict[str, object]) -> bool:
    lags = [result[name] for name in ("start_lag_s", "request_lag_s")]
    late = any(isinstance(values, list) and values[1] > MOST_LAG_S for values in lags)
    return not late and float(str(result["kb"])) <= MOST_KB


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--gap", type=float, default=GAP_S, help="seconds between an answer and the next request")
    parser.add_argument("--traces", default="", help="traces to replay instead, their gaps scaled to that mean")
    parser.add_argument("--only", choices=("closed", "open", "naive"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(kind=given.child, url=given.url, sessions=given.sessions, gap_s=given.gap, traces=given.traces)
    if given.child:
        print(json.dumps(asyncio.run(Naive(load).run()) if given.child == "naive" else measured_replay(load)))
        return 0
    kinds = [given.only] if given.only else ["closed", "open"] + ([] if given.traces else ["naive"])
    results = {}
    with instant_server() as url:
        for kind in kinds:
            results[kind] = in_a_process_of_its_own(replace(load, kind=kind, url=url))
            show(kind, results[kind])
    if "naive" in results and len(results) > 1:
        ours, theirs = (max(float(str(results[kind]["kb"])) for kind in names) for names in (kinds[:-1], kinds[-1:]))
        print(f"memory of a session, ours over naive: {ours / theirs:.2f}")
    return 0 if all(holds(result) for kind, result in results.items() if kind != "naive") else 1


if __name__ == "__main__":
    sys.exit(main())
