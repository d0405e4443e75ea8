"""The dataset: its page says what its figures say, and its figures what its traces say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rotoscope.traces import load
from scripts.dataset import figures, tables
from scripts.dataset.figures import Figures, figures_of
from scripts.dataset.patterns import PATTERNS, RUNS
from scripts.dataset.recording import Ended, status_of, trace_of
from scripts.example_traces.table import FOLDER

ROWS = figures.load()


def row(pattern: str = "react", run: int = 1, rate: float = 0.5, isl: tuple[int, ...] = (1000,)) -> Figures:
    hit = round(rate * sum(isl))
    return Figures(
        pattern=pattern,
        run=run,
        reached_goal=True,
        isl=isl,
        osl=tuple(n // 10 for n in isl),
        tool_calls=1,
        tool_s=0.5,
        parallelism=1,
        system_tokens=hit // 2,
        hit_tokens=hit,
        hit_tokens_low=hit,
        hit_tokens_high=hit,
        hit_tokens_cold=0,
    )


def test_all_runs_of_all_patterns_are_told_of() -> None:
    assert [(one.pattern, one.run) for one in ROWS] == [
        (pattern.name, run) for pattern in PATTERNS for run in range(1, RUNS + 1)
    ]


def test_the_page_has_the_tables_of_the_figures() -> None:
    page = tables.PAGE.read_text()

    assert tables.with_tables(page, ROWS) == page
    assert tables.with_tables(page, ROWS[:-1]) != page


def test_the_readme_of_the_traces_tells_of_those_that_are_published() -> None:
    readme = (FOLDER / "README.md").read_text()

    assert tables.with_published(readme, FOLDER) == readme
    assert readme.count("run-01.trace.json`](") == len(PATTERNS)


def test_figures_are_what_is_read_back(tmp_path: Path) -> None:
    figures.save(ROWS, tmp_path / "again.jsonl")

    assert (tmp_path / "again.jsonl").read_bytes() == figures.FILE.read_bytes()


TRACES = sorted(path for pattern in PATTERNS for path in (FOLDER / pattern.name).glob("*.trace.json"))


def test_two_traces_of_each_pattern_are_published() -> None:
    assert [path.parent.name for path in TRACES] == sorted(2 * [pattern.name for pattern in PATTERNS])


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_a_published_trace_has_the_figures_of_its_run(path: Path) -> None:
    run = int(path.name.removeprefix("run-")[:2])
    (told,) = (one for one in ROWS if (one.pattern, one.run) == (path.parent.name, run))

    found = figures_of(load(path), pattern=path.parent.name, run=run, reached_goal=told.reached_goal)

    assert (sorted(found.isl), sorted(found.osl)) == (sorted(told.isl), sorted(told.osl))
    assert (found.hit_tokens, found.hit_tokens_cold) == (told.hit_tokens, told.hit_tokens_cold)
    assert found.tool_s == pytest.approx(told.tool_s, abs=0.001 * found.tool_calls)


def test_a_table_tells_ours_beside_theirs() -> None:
    table = tables.table_1([row(rate=0.25), row(rate=0.75, isl=(1000, 12_345)), *others()])

    lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
    ours = {line[0]: line[2] for line in lines if line[1] == "ours"}
    theirs = [line[1] for line in lines if len(line) > 2 and line[0] == "article"]
    assert ours["traces"] == "2"
    assert ours["LLM requests / trace, mean"] == "1.5"
    assert ours["ISL / request, median, p90"] == "1.0k, 10.1k"
    assert ours["last-turn ISL, mean"] == "6.7k"
    assert ours["optimal hit rate, mean"] == "50.0%"
    assert theirs == [] or "96.5%" in theirs


def others() -> list[Figures]:
    return [row(pattern.name) for pattern in PATTERNS[1:]]


def test_prompts_are_instructions_history_and_what_is_new() -> None:
    table = tables.origins([row(rate=0.6), *others()])

    assert "| `react` | 30% | 30% | 40% |" in table


@pytest.mark.parametrize(
    ("rates", "bars"), [([0.0, 0.99], "█..█"), ([1.0], "...█"), ([0.3, 0.3, 0.3, 0.6], ".█▃."), ([0.5] * 3, "..█.")]
)
def test_a_histogram_has_a_place_for_each_part(rates: list[float], bars: str) -> None:
    assert tables.histogram(rates, bins=4) == bars


def test_what_rotoscope_record_tells_of_a_run_is_understood() -> None:
    page = (tables.PAGE.parent / "record.md").read_text()

    told = [ended for ended in map(Ended.told_in, page.splitlines()) if ended]
    assert [(one.of_all, one.run, one.status, one.calls, one.trace.name) for one in told] == [
        ("1 of 3", 1, 0, 12, "run-0001.trace.json"),
        ("2 of 3", 3, 1, 4, "run-0002.trace.json"),
        ("3 of 3", 2, 0, 15, "run-0003.trace.json"),
    ]


@pytest.mark.parametrize(("status", "stays"), [(0, True), (1, True), (143, False), (-15, False)])
def test_a_run_that_was_cut_short_is_not_kept(status: int, stays: bool, tmp_path: Path) -> None:
    recorded = tmp_path / "run-0001.trace.json"
    recorded.write_text("{}")
    ended = Ended.told_in(f"rotoscope: [1 of 30] line 7, exit status {status}: 12 calls, 3 prompt tokens: {recorded}")
    assert ended is not None

    ended.keep(tmp_path, tmp_path)

    assert trace_of(tmp_path, 7).exists() == status_of(tmp_path, 7).exists() == stays


def test_runs_that_reached_their_goal_are_counted() -> None:
    table = tables.goals([row(), replace(row(), reached_goal=False), *others()])

    assert "| `react` | 2 | 1 |" in table
    assert "| `agentic_rag` | 1 | 1 |" in table


def test_the_article_is_told_as_it_is_printed() -> None:
    told = {pattern.name: pattern.theirs.hit_rate for pattern in PATTERNS if pattern.theirs}

    assert told == {
        "react": "96.5%",
        "deep_research": "47.8%",
        "iterative_research": "24.4%",
        "tree_of_thought": "28.8%",
    }
