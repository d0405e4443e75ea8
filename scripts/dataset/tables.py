"""The tables of docs/dataset.md, from the figures of the traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, quantiles

from rotoscope.traces import load
from rotoscope.traces.analysis.statistics import distribution
from scripts.dataset.figures import Figures
from scripts.dataset.patterns import PATTERNS, Pattern, Theirs
from scripts.example_traces.table import figures

PAGE = Path(__file__).parents[2] / "docs/dataset.md"
PART = re.compile(r"(<!-- dataset: (?P<what>\w+) -->\n)(?P<body>.*?)(<!-- dataset: end -->)", re.DOTALL)
NOTHING = "-"
GIVEN, EMERGENT, BOTH = "given", "emergent", "both"

Group = Sequence[Figures]


def spread(values: Iterable[int]) -> str:
    """Return median and 90th percentile."""
    found = distribution(list(values))
    return f"{tokens(found.median)}, {tokens(found.p90)}"


def tokens(value: float) -> str:
    """Return a count as the article prints it: three digits at most, thousands as k."""
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"


MEASURES: tuple[tuple[str, str, Callable[[Group], str], Callable[[Theirs], str]], ...] = (
    ("traces", GIVEN, lambda rows: str(len(rows)), lambda t: t.traces),
    (
        "LLM requests / trace, mean",
        BOTH,
        lambda rows: f"{mean(len(row.isl) for row in rows):.1f}",
        lambda t: t.requests,
    ),
    ("ISL / request, median, p90", EMERGENT, lambda rows: spread(n for row in rows for n in row.isl), lambda t: t.isl),
    ("OSL / request, median, p90", GIVEN, lambda rows: spread(n for row in rows for n in row.osl), lambda t: t.osl),
    ("last-turn ISL, mean", EMERGENT, lambda rows: tokens(mean(row.isl[-1] for row in rows)), lambda t: t.last_isl),
    ("last-turn OSL, mean", GIVEN, lambda rows: tokens(mean(row.osl[-1] for row in rows)), lambda t: t.last_osl),
    (
        "optimal hit rate, mean",
        EMERGENT,
        lambda rows: f"{mean(row.hit_rate for row in rows):.1%}",
        lambda t: t.hit_rate,
    ),
)
"""Of each line: its name, whether it was set or followed, how it is computed of ours, and what the article says."""


def table_1(rows: Sequence[Figures]) -> str:
    """Return the article's table 1 for ours, each line beside theirs."""
    groups = [(pattern, of(rows, pattern)) for pattern in PATTERNS]
    lines = [("", "", *(f"`{pattern.name}`" for pattern in PATTERNS), "ours is")]
    names = (pattern.theirs.name if pattern.theirs else NOTHING for pattern in PATTERNS)
    lines.append(("beside", "article", *names, ""))
    for name, origin, ours, theirs in MEASURES:
        lines.append((name, "ours", *(ours(group) for _, group in groups), origin))
        told = (theirs(pattern.theirs) if pattern.theirs else NOTHING for pattern in PATTERNS)
        lines.append(("", "article", *told, ""))
    cold = (f"{mean(row.hit_rate_cold for row in group):.1%}" for _, group in groups)
    lines.append(("the same, nothing preloaded", "ours", *cold, EMERGENT))
    low = (f"{mean(row.hit_rate_low for row in group):.1%}" for _, group in groups)
    lines.append(("the least that it can be", "ours", *low, EMERGENT))
    return markdown(lines)


def optima(rows: Sequence[Figures]) -> str:
    """Return how the optimum of a trace is distributed in each pattern."""
    head = ("", "min", "p10", "p25", "median", "p75", "p90", "max", "0 % to 100 %, one place for each 5 %")
    lines: list[tuple[str, ...]] = [head]
    for pattern in PATTERNS:
        rates = sorted(row.hit_rate for row in of(rows, pattern))
        tenths, quarters = quantiles(rates, n=10, method="inclusive"), quantiles(rates, n=4, method="inclusive")
        places = (rates[0], tenths[0], *quarters, tenths[-1], rates[-1])
        lines.append((f"`{pattern.name}`", *(f"{rate:.1%}" for rate in places), f"`{histogram(rates)}`"))
    return markdown(lines)


def origins(rows: Sequence[Figures]) -> str:
    """Return what the prompts of each pattern are made of, as shares of all their tokens."""
    lines: list[tuple[str, ...]] = [("", "instructions and tools", "own history", "new")]
    for pattern in PATTERNS:
        group = of(rows, pattern)
        prompts, hits = sum(sum(row.isl) for row in group), sum(row.hit_tokens for row in group)
        system = sum(row.system_tokens for row in group)
        shares = (system / prompts, (hits - system) / prompts, 1 - hits / prompts)
        lines.append((f"`{pattern.name}`", *(f"{share:.0%}" for share in shares)))
    return markdown(lines)


def goals(rows: Sequence[Figures]) -> str:
    """Return how many runs of each pattern reached their goal."""
    lines: list[tuple[str, ...]] = [("", "runs", "reached their goal")]
    for pattern in PATTERNS:
        group = of(rows, pattern)
        lines.append((f"`{pattern.name}`", str(len(group)), str(sum(row.reached_goal for row in group))))
    return markdown(lines)


def histogram(rates: Iterable[float], bins: int = 20) -> str:
    """Return how many rates are in each of equal parts from 0 to 1, as a line of bars; a point stands for none."""
    counts = [0] * bins
    for rate in rates:
        counts[min(int(rate * bins), bins - 1)] += 1
    bars = "▁▂▃▄▅▆▇█"
    return "".join(bars[(len(bars) - 1) * count // max(counts)] if count else "." for count in counts)


def of(rows: Sequence[Figures], pattern: Pattern) -> Group:
    return [row for row in rows if row.pattern == pattern.name]


def markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *others = lines
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *others))


def published(folder: Path) -> str:
    """Return the table of the traces that are below a folder."""
    head = ("file", "calls", "branches", "tool calls", "ISL", "OSL", "hit rate")
    lines: list[tuple[str, ...]] = [head]
    for pattern in PATTERNS:
        for path in sorted((folder / pattern.name).glob("*.trace.json")):
            name = path.relative_to(folder).as_posix()
            lines.append((f"[`{name}`]({name})", *figures(load(path))))
    return markdown(lines)


PARTS: dict[str, Callable[[Sequence[Figures]], str]] = {
    "table_1": table_1,
    "optima": optima,
    "origins": origins,
    "goals": goals,
}


def with_tables(page: str, rows: Sequence[Figures]) -> str:
    """Return a page with its tables made anew."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found['what']](rows)}{found[4]}", page)


def with_published(readme: str, folder: Path) -> str:
    """Return the README of a folder of traces with the table of those of the dataset."""
    return PART.sub(lambda found: f"{found[1]}{published(folder)}{found[4]}", readme)
