"""Replay the same traces against the same server with AIPerf and with Rotoscope, and compare what both take and send.

Eight Weka traces, 163 requests of 64,600 prompt tokens on average, four sessions at a time, all streamed, no waits.
AIPerf counts by the server's usage and starts with an empty dataset cache, in a home of its own that is thrown away.
The server answers at once, so that what is measured is the clients: processor time and memory of all their processes,
and the time from the start of a command to its first request. Runs take turns; medians count.

Claims: at least 12 times less processor time, a first request at least 5 times sooner, at most a quarter of the memory,
with prompts of token ids and with messages. And fidelity: what a server's tokenizer makes of the prompts that arrived,
beside the lengths and prefixes recorded; Rotoscope's are exact. Last, the conversation trace of Mooncake is read in
less than 2 s of processor time. Exits 1 where one of them does not hold.

The traces are looked for in $ROTOSCOPE_DATA or ../shared/data. Linux only. Run: make bench-aiperf
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.process_tree import Cost, measure
from benchmarks.prompt_fidelity import BLOCK_SIZES, Drift, Prompt, drift, hit_rates, recorded_prompts, sent_prompts

PROJECT = Path(__file__).parents[1]
DATA = Path(os.environ.get("ROTOSCOPE_DATA", PROJECT.parent / "shared" / "data")).absolute()
TRACES = [DATA / "weka" / f"trace_{n}.json" for n in ("0057", "0091", "0142", "0187", "0192", "0277", "0291", "0707")]
CONVERSATION = DATA / "mooncake" / "conversation_trace.jsonl"

MODEL = "mock-model"
REQUESTS = 163
NOT_VALID = 3
"""Exit code of a replay of which some gate says so, as eight sessions are few, and a server that answers at once busies the
client."""
CONCURRENCY = 4
ROUNDS = 3

LEAST_CPU_RATIO = 12.0
LEAST_START_RATIO = 5.0
MOST_MEMORY_SHARE = 0.25
MOST_READING_S = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool runs: in a folder that is thrown away, with nothing of the user's."""

    folder: Path
    url: str
    tokenizer: Path
    traces: Path

    @property
    def environment(self) -> dict[str, str]:
        homes = {name: str(self.folder) for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        return {**homes, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Tool:
    """A way to replay the traces."""

    name: str
    command: Callable[[Place], list[str]]
    requests: Callable[[Place], tuple[int, int]]
    """Requests that were done, and errors, as the tool tells them."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a tool."""

    cost: Cost
    first_request_s: float
    """From the start of the command to the arrival of its first request."""
    done: int
    errors: int


@dataclass(frozen=True, slots=True)
class Medians:
    """Of several runs of a tool."""

    cpu_s: float
    first_s: float
    peak_mib: float
    wall_s: float

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Medians:
        return cls(
            statistics.median(run.cost.cpu_s for run in runs),
            statistics.median(run.first_request_s for run in runs),
            statistics.median(run.cost.peak_mib for run in runs),
            statistics.median(run.cost.wall_s for run in runs),
        )


class Server:
    """The server, in a process of its own."""

    def __init__(self, python: Path, tokenizer: Path) -> None:
        command = [str(python), "-m", "benchmarks.instant_server", "--tokenizer", str(tokenizer)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT)
        self.pid = self._process.pid
        self.url = f"http://127.0.0.1:{self._line()}"

    def arrivals(self) -> list[float]:
        """Return when requests came since this was last asked, in monotonic seconds."""
        self._say("arrivals")
        times: list[float] = json.loads(self._line())
        return times

    def keep_bodies(self, file: Path) -> None:
        self._say(f"bodies {file}")

    def end(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _say(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()


def aiperf(program: Path) -> Tool:
    """Return AIPerf as it is told to replay Weka files."""

    def command(place: Place) -> list[str]:
        common = f"-m {MODEL} --tokenizer {place.tokenizer} -u {place.url} --endpoint-type chat --streaming --ui none"
        replay = f"--custom-dataset-type weka_trace --input-file {place.traces} --num-sessions {len(TRACES)}"
        timing = f"--concurrency {CONCURRENCY} --ignore-trace-delays --random-seed 1"
        rest = "--use-server-token-count --extra-inputs ignore_eos:true"
        return [str(program), "profile", *f"{common} {replay} {timing} {rest}".split()]

    def requests(place: Place) -> tuple[int, int]:
        export = json.loads(next(place.folder.rglob("profile_export_aiperf.json")).read_bytes())
        errors = export.get("error_request_count") or {"avg": 0}
        return int(export["request_count"]["avg"]), int(errors["avg"])

    return Tool("AIPerf", command, requests)


def rotoscope(api: str) -> Tool:
    """Return Rotoscope with prompts of token ids (`completions`) or of messages (`chat`)."""

    def command(place: Place) -> list[str]:
        options = f"--url {place.url} --gaps none --concurrency {CONCURRENCY} --api {api} -o {place.folder / 'out'}"
        return [sys.executable, "-m", "rotoscope", "replay", str(place.traces), *options.split()]

    def requests(place: Place) -> tuple[int, int]:
        counts = json.loads((place.folder / "out" / "summary.json").read_bytes())["requests"]
        return counts["ok"], counts["failed"] + counts["cancelled"]

    return Tool(f"Rotoscope, {api}", command, requests)


def run(tool: Tool, server: Server, *, tokenizer: Path, traces: Path) -> Run:
    """Run a tool once, from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), server.url, tokenizer, traces)
        log = place.folder / "log"
        server.arrivals()
        cost = measure(
            tool.command(place), log=log, cwd=place.folder, environment=place.environment, spare=[server.pid]
        )
        arrivals = server.arrivals()
        if cost.exit_code not in (0, NOT_VALID) or len(arrivals) < REQUESTS:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise SystemExit(f"{tool.name} exited with {cost.exit_code} after {len(arrivals)} requests:\n{tail}")
        first_s = arrivals[-REQUESTS]  # what comes before the replay's own is for finding out about the server
        return Run(cost, first_s - cost.started_s, *tool.requests(place))


def measure_all(
    tools: Sequence[Tool], server: Server, rounds: int, *, tokenizer: Path, traces: Path
) -> list[list[Run]]:
    """Run the tools in turns, every other round the other way round; return the runs of each."""
    runs: list[list[Run]] = [[] for _ in tools]
    for number in range(rounds):
        order = list(enumerate(tools))
        for index, tool in reversed(order) if number % 2 else order:
            done = run(tool, server, tokenizer=tokenizer, traces=traces)
            print(f"  {tool.name}: {done.cost.cpu_s:.2f} CPU s, {done.cost.wall_s:.1f} s", file=sys.stderr)
            runs[index].append(done)
    return runs


def print_costs(tools: Sequence[Tool], runs: Sequence[Sequence[Run]]) -> bool:
    """Print medians and their ratios to those of the first tool; return whether the claims hold."""
    medians = [Medians.of(of) for of in runs]
    heads = ("CPU, s", "first, s", "PSS, MiB", "wall, s", "processes", "done", "errors")
    print(" " * 24 + "".join(f"{head:>11}" for head in heads))
    for tool, of, median in zip(tools, runs, medians, strict=True):
        figures = "".join(f"{value:11.2f}" for value in astuple(median))
        print(f"{tool.name:24}{figures}{of[0].cost.processes:11}{of[0].done:11}{of[0].errors:11}")
    holds = all(one.done == REQUESTS and not one.errors for of in runs for one in of)
    for tool, median in zip(tools[1:], medians[1:], strict=True):
        holds &= _print_ratios(tool, median, medians[0])
    return holds


def _print_ratios(tool: Tool, ours: Medians, theirs: Medians) -> bool:
    cpu, start, memory = theirs.cpu_s / ours.cpu_s, theirs.first_s / ours.first_s, ours.peak_mib / theirs.peak_mib
    print(
        f"{tool.name}: {cpu:.1f} times less CPU (at least {LEAST_CPU_RATIO:.0f}), first request {start:.1f} times "
        f"sooner (at least {LEAST_START_RATIO:.0f}), {memory:.1%} of the memory (at most {MOST_MEMORY_SHARE:.0%})"
    )
    return cpu >= LEAST_CPU_RATIO and start >= LEAST_START_RATIO and memory <= MOST_MEMORY_SHARE


def captured(tool: Tool, server: Server, python: Path, *, tokenizer: Path, traces: Path) -> list[Prompt]:
    """Run a tool once more and return the prompts that arrived."""
    with tempfile.TemporaryDirectory() as folder:
        bodies = Path(folder) / "bodies"
        server.keep_bodies(bodies)
        run(tool, server, tokenizer=tokenizer, traces=traces)
        command = [str(python), "-m", "benchmarks.sent_prompts", str(bodies), str(tokenizer)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT).stdout
        server.keep_bodies(Path(os.devnull))
    return sent_prompts(lines)[-REQUESTS:]


def print_drift(tool: Tool, found: Drift | None) -> None:
    """Print how far a tool's prompts are from those recorded."""
    if found is None:
        print(f"{tool.name}: other output lengths than recorded")
        return
    rates = " / ".join(f"{rate:.4f}" for rate in found.hit_rates)
    print(
        f"{tool.name}: {found.tokens - found.recorded_tokens:+,} prompt tokens of {found.recorded_tokens:,}, a prompt "
        f"{found.least:+} to {found.most:+} (median {found.median:+.0f}), {found.exact} of {found.prompts} exact; "
        f"hit rate {rates}, {found.extra_hits:+,} tokens; {found.repeats_a_role} prompts repeat a role"
    )


def compare_prompts(tools: Sequence[Tool], server: Server, python: Path, *, tokenizer: Path, traces: Path) -> bool:
    """Print the drift of each tool; return whether all but the first are exact."""
    recorded = recorded_prompts(TRACES)
    one_cache = hit_rates(recorded_prompts(TRACES, by_model=False))
    sizes = " / ".join(map(str, BLOCK_SIZES))
    print(f"\nprompts that arrived, hit rate of a cache that never evicts at {sizes} tokens a block")
    print(
        f"recorded: {sum(one.tokens for one in recorded):,} prompt tokens, hit rate "
        f"{hit_rates(recorded)[0]:.4f} with a cache a model, {one_cache[0]:.4f} with one for all models"
    )
    exact = []
    for tool in tools:
        found = drift(captured(tool, server, python, tokenizer=tokenizer, traces=traces), recorded)
        print_drift(tool, found)
        exact.append(found is not None and found.is_exact)
    return all(exact[1:])


def reads_mooncake_soon() -> bool:
    """Print how long the conversation trace takes to read, with all that must be loaded; return whether it is in time.

    The least of several times counts, since what else the machine does can only add to it.
    """
    code = (
        "import sys, time; from rotoscope import open_traces; traces = open_traces(sys.argv[1:]); "
        "print(time.process_time(), len(traces), sum(1 for one in traces for _ in one.trace.calls()))"
    )
    times = []
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", code, str(CONVERSATION)], check=True, capture_output=True, text=True
        )
        took, traces, calls = done.stdout.split()
        times.append(float(took))
    least = min(times)
    print(f"\nMooncake conversation trace: {calls} calls in {traces} traces, read in {least:.2f} s of CPU", end=" ")
    print(f"(less than {MOST_READING_S:.0f})")
    return least < MOST_READING_S


@contextlib.contextmanager
def prepared(python: Path) -> Iterator[tuple[Server, Path, Path]]:
    """Yield the server, the folder of a tokenizer trained on text that AIPerf ships, and one with the traces."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, traces = Path(folder) / "tokenizer", Path(folder) / "traces"
        print("training a tokenizer", file=sys.stderr)
        command = [str(python), "-m", "benchmarks.offline_tokenizer", str(tokenizer)]
        subprocess.run(command, check=True, capture_output=True, cwd=PROJECT)
        traces.mkdir()
        for trace in TRACES:
            (traces / trace.name).symlink_to(trace)
        server = Server(python, tokenizer)
        try:
            yield server, tokenizer, traces
        finally:
            server.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--aiperf", type=Path, required=True, metavar="VENV", help="environment with AIPerf")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--apis", nargs="+", default=["completions", "chat"], help="Rotoscope's, to be compared")
    given = parser.parse_args()
    bin_folder = given.aiperf.absolute() / "bin"
    missing = [str(path) for path in (*TRACES, bin_folder / "aiperf") if not path.exists()]
    if missing:
        print(f"skipped: {missing[0]} is not there")
        return 0
    tools = [aiperf(bin_folder / "aiperf"), *map(rotoscope, given.apis)]
    with prepared(bin_folder / "python") as (server, tokenizer, traces):
        runs = measure_all(tools, server, given.rounds, tokenizer=tokenizer, traces=traces)
        holds = print_costs(tools, runs)
        holds &= compare_prompts(tools, server, bin_folder / "python", tokenizer=tokenizer, traces=traces)
    holds &= reads_mooncake_soon()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
