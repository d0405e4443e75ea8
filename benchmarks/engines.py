"""Compare the cached tokens that real engines report, call by call, with the realised optimum of their profiles.

Each engine that is here is started on loopback, cold; each workload is replayed on it by `rotoscope.replayer`, and what
each answer says of its cached tokens stands beside the optimum over the streams that were really sent: prompts of token
ids, and of messages where the engine tells how it makes tokens of text. On vLLM and on the Dynamo mocker the two are
equal, but for calls whose prompt was computed while another's was: these cannot give each other what neither has yet, and
find at most the optimum. The mocker has an engine's scheduler and cache and computes no model. llama-server keeps one
prefix a slot and cuts it back where prompts fork, so it may find less, never more.

Exits 1 where a difference is not one of these. Engines that are not installed are named and left out.

Run: make bench-engine
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.agent_shapes import forking, parallel, rewinding, single_branch, thinking_dropped
from engine.real_engines import MissingEngine, RealEngine, Server, real_engines

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.run import replay
from rotoscope.replayer.summary import Summary
from rotoscope.tables import print_table
from rotoscope.testing import make_trace
from rotoscope.traces import Trace

MODELS = Path("build/engine")
HEADINGS = (
    "engine",
    "workload",
    "api",
    "sessions",
    "at once",
    "calls",
    "prompt tokens",
    "cached",
    "optimum",
    "equal",
    "below",
    "above",
)
TOKENS = ("prompt", "cached", "optimum")


@dataclass(frozen=True)
class Workload:
    """What is replayed, and how much of it at once."""

    name: str
    traces: Sequence[Trace]
    sessions: int
    concurrency: int
    api: str = "completions"


@dataclass(frozen=True)
class Outcome:
    """How a call's prompt met the cache, in tokens."""

    prompt: int
    cached: int
    optimum: int
    overlapped: bool
    """Whether another call's prompt was computed at the same time."""


@dataclass(frozen=True)
class Comparison:
    """The calls of a workload on an engine, in the order in which they were sent."""

    workload: Workload
    calls: tuple[Outcome, ...]

    def row(self, engine: str) -> tuple[str, ...]:
        """Return the line of the table."""
        prompt, cached, optimum = (sum(getattr(one, name) for one in self.calls) for name in TOKENS)
        below = sum(one.cached < one.optimum for one in self.calls)
        above = sum(one.cached > one.optimum for one in self.calls)
        work, calls = self.workload, len(self.calls)
        numbers = (work.sessions, work.concurrency, calls, prompt, cached, optimum, calls - below - above, below, above)
        return (engine, work.name, work.api, *map(str, numbers))

    def differences(self) -> Iterator[tuple[int, Outcome]]:
        """Yield the calls, with their number, whose cached tokens are not the optimum."""
        return ((number, one) for number, one in enumerate(self.calls) if one.cached != one.optimum)


SIX_TURNS = make_trace(turns=6, isl=1000, osl=40, new=260, system=200, tool_ms=0)
"""1000 tokens, then 300 more a turn, 40 of them the engine's own; 200 in common with every session."""
WORKLOADS = (
    Workload("six turns", [SIX_TURNS], 4, 1),
    Workload("growing", [single_branch()], 1, 1),
    Workload("thinking dropped", [thinking_dropped()], 1, 1),
    Workload("forking", [forking()], 1, 1),
    Workload("rewinding", [rewinding()], 1, 1),
    Workload("six turns", [SIX_TURNS], 8, 4),
    Workload("parallel branches", [parallel()], 1, 1),
    *(Workload("six turns", [SIX_TURNS], 4, 1, api) for api in ("chat", "responses", "messages")),
)
TELLS_NO_TOKENS = ("dynamo",)
"""Engines without `/tokenize`: prompts of words have the right length there only by a file of their tokenizer."""
CUTS_BACK = ("llamacpp",)
"""Engines that may find less than the optimum wherever prompts fork, and nothing under a tenth of a prompt."""


def main() -> int:
    arguments = parse()
    rows, told, faults = [], [], 0
    for engine in real_engines(vllm=arguments.vllm, dynamo=arguments.dynamo, models=MODELS):
        if isinstance(engine, MissingEngine):
            print(f"{engine.name}: left out, {engine.reason}", file=sys.stderr)
            continue
        print(f"{engine.name}: {engine.version}, profile {engine.profile}, {engine.block_size} tokens a block")
        for comparison in compared(engine):
            rows.append(comparison.row(engine.name))
            for number, one in comparison.differences():
                reason = explanation(engine.name, one)
                faults += not reason
                place = f"{engine.name}, {comparison.workload.name}, call {number} of {len(comparison.calls)}"
                told.append(f"{place}: {one.cached} cached, optimum {one.optimum}: {reason or 'NOT EXPLAINED'}")
    print_table(HEADINGS, rows, right=range(3, len(HEADINGS)))
    print("\n".join(told))
    return 1 if faults or not rows else 0


def explanation(engine: str, one: Outcome) -> str | None:
    """Return why a call found something else than its optimum, None if nothing explains it."""
    if one.cached > one.optimum:
        return None
    if one.overlapped:
        return "its prompt was computed at the same time as another's"
    return "no slot held it any more, or it is too small a part of the prompt" if engine in CUTS_BACK else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vllm", type=Path, default=Path(".venv-vllm"))
    parser.add_argument("--dynamo", type=Path, default=Path(".venv-dynamo"))
    return parser.parse_args()


def compared(engine: RealEngine) -> Iterator[Comparison]:
    """Start the engine once and yield what each workload measured; fresh salts keep them apart."""
    with engine.start(emptied(MODELS / f"run-{engine.name}")) as server:
        for workload in WORKLOADS:
            if workload.api != "completions" and engine.name in TELLS_NO_TOKENS:
                continue
            with TemporaryDirectory() as folder:
                summary = replayed(workload, engine, server, Path(folder))
                yield comparison_of(workload, summary.request_results, summary.optimal_tokens)


def emptied(folder: Path) -> Path:
    """Return a folder for an engine's state and log, which stays for whoever wants to read it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def replayed(workload: Workload, engine: RealEngine, server: Server, folder: Path) -> Summary:
    options = ReplayOptions(
        url=server.url,
        api=workload.api,
        profile=engine.profile,
        block_size=engine.block_size,
        sessions=workload.sessions,
        concurrency=workload.concurrency,
        folder=folder / "results",
        timeout_s=60,
    )
    summary = replay([*workload.traces] * workload.sessions, options)
    inexact = summary.isl_mismatches + summary.osl_mismatches + summary.unverified + summary.without_ids
    if not summary.is_complete or inexact:
        raise SystemExit(
            f"{engine.name}, {workload.name}: not measured: {summary.failures or '; '.join(summary.notes)}"
        )
    return summary


def comparison_of(workload: Workload, results: Sequence[RequestResult], optima: Sequence[int]) -> Comparison:
    """Put the calls in the order in which they were sent."""
    both = sorted(zip(results, optima, strict=True), key=lambda pair: pair[0].start_s or 0.0)
    return Comparison(
        workload,
        tuple(
            Outcome(one.planned_prompt_tokens, one.cached_tokens or 0, optimum, overlaps(one, results))
            for one, optimum in both
        ),
    )


def overlaps(one: RequestResult, others: Sequence[RequestResult]) -> bool:
    """Return whether another call waited for its first token at some moment at which this one did."""
    start, end = until_first_token(one)
    spans = [until_first_token(other) for other in others if other is not one]
    return any(start < other_end and other_start < end for other_start, other_end in spans)


def until_first_token(one: RequestResult) -> tuple[float, float]:
    start_s = one.start_s or 0.0
    return start_s, start_s + (one.ttft_s or one.latency_s or 0.0)


if __name__ == "__main__":
    sys.exit(main())
