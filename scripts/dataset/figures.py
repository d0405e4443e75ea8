"""The figures of each trace of the dataset, kept as lines of JSON: what the tables are made of, without the traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rotoscope.traces import Trace
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.analysis.statistics import TraceStatistics, describe

FILE = Path(__file__).parents[2] / "examples/dataset.jsonl"
PRELOADED = Assumptions()
"""Tokens, no blocks; outputs can be reused; system prompts are cached before the first call, as in the article."""
COLD = Assumptions(preload=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the tables say of one trace."""

    pattern: str
    run: int
    reached_goal: bool
    """Whether the agent ended with status 0, which it decides by tests, known answers, or whether there is a report."""
    isl: Sequence[int]
    """Prompt tokens of each call, in order of calls; the last one is the last turn."""
    osl: Sequence[int]
    tool_calls: int
    tool_s: float
    """Sum of the durations of its tools in seconds, which ran on the machine that recorded it."""
    parallelism: int
    """Branches in flight, or calls, at most."""
    system_tokens: int
    """Prompt tokens that are instructions and tools shared with other runs."""
    hit_tokens: int
    """Prompt tokens that a cache without limit serves, system prompts preloaded."""
    hit_tokens_low: int
    """The same if every shared beginning were as short as the trace allows."""
    hit_tokens_high: int
    hit_tokens_cold: int
    """Nothing preloaded."""

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / sum(self.isl)

    @property
    def hit_rate_low(self) -> float:
        return self.hit_tokens_low / sum(self.isl)

    @property
    def hit_rate_cold(self) -> float:
        return self.hit_tokens_cold / sum(self.isl)


def figures_of(trace: Trace, *, pattern: str, run: int, reached_goal: bool) -> Figures:
    """Return the figures of a trace, which does not say itself how its agent ended."""
    found: TraceStatistics = describe(trace, PRELOADED)
    return Figures(
        pattern=pattern,
        run=run,
        reached_goal=reached_goal,
        isl=found.isl,
        osl=found.osl,
        tool_calls=found.tool_calls,
        tool_s=round(found.tool_s, 3),
        parallelism=found.parallelism,
        system_tokens=found.system_tokens,
        hit_tokens=found.hit_tokens["n"],
        hit_tokens_low=found.hit_tokens["low"],
        hit_tokens_high=found.hit_tokens["high"],
        hit_tokens_cold=describe(trace, COLD).hit_tokens["n"],
    )


def save(rows: Iterable[Figures], file: Path = FILE) -> None:
    """Write a line for each trace."""
    lines = (json.dumps(asdict(row), separators=(",", ":")) for row in rows)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def load(file: Path = FILE) -> list[Figures]:
    """Read all lines."""
    return [Figures(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
