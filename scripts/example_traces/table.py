"""The table of the example traces in their README: what is told of each, and figures that follow from the files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rotoscope.traces import ParallelStart, Trace, load
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.analysis.statistics import describe
from scripts.dataset.patterns import PATTERNS

FOLDER = Path(__file__).parents[2] / "examples/traces"
PART = re.compile(r"(<!-- begin files -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
COLD = Assumptions(profile=profile_named("token", block_size=16), preload=False)
"""What `rotoscope analyze --block-size 16 --no-preload` assumes."""
HEAD = ("file", "what it shows", "calls", "branches", "tool calls", "ISL", "OSL", "hit rate")


def figures(trace: Trace) -> tuple[str, ...]:
    """Return calls, branches beside the root, tool calls, mean ISL and OSL, and the planned optimum in blocks of 16."""
    found = describe(trace, COLD)
    branches = sum(event.num_branches for event in trace.events if isinstance(event, ParallelStart))
    isl, osl = found.prompt_tokens / found.calls, found.completion_tokens / found.calls
    return (
        *(str(found.calls), str(branches), str(found.tool_calls)),
        *(f"{isl:,.0f}", f"{osl:,.0f}", f"{found.hit_rate():.1%}"),
    )


def files(folder: Path) -> list[Path]:
    """Return the traces of coding agents below a folder, in which those of the dataset are as well."""
    patterns = {pattern.name for pattern in PATTERNS}
    return sorted(path for path in folder.glob("*/*.trace.json") if path.parent.name not in patterns)


def table(folder: Path, shows: Mapping[str, str]) -> str:
    """Return the table of all traces below a folder; `shows` has what each shows, by its path there."""
    names = {path: path.relative_to(folder).as_posix() for path in files(folder)}
    rows = [(f"[`{name}`]({name})", shows[name], *figures(load(path))) for path, name in names.items()]
    lines = [HEAD, ("---",) * 2 + ("--:",) * (len(HEAD) - 2), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def rows_of(readme: str) -> dict[str, Sequence[str]]:
    """Return the cells of the table in a README, by the path of the file that they are of."""
    part = PART.search(readme)
    assert part is not None, "the README has no place for the table"
    rows = re.findall(r"^\| \[`([^`]+)`\]\(\1\) \| (.*) \|$", part["body"], re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in rows}


def with_table(readme: str, body: str) -> str:
    """Return a README with another table."""
    return PART.sub(lambda found: f"{found[1]}{body}{found[3]}", readme)
