"""Law: the traces in examples/traces are valid, hold no content and no name, replay as they say, and are described."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from captured_simulator import Ids, Place, lengths_of, replayed
from clients.truth import common
from forest_truth import Truth
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.traces import Call, ParallelEnd, ParallelStart, Trace, dumps, load
from rotoscope.traces.audit import audit
from rotoscope.traces.model import Branch, ToolCall
from scripts.example_traces.catalogue import EXAMPLES
from scripts.example_traces.table import COLD, FOLDER, figures, files, rows_of

FILES = files(FOLDER)
AGENTS = sorted({path.parent for path in FILES})
README = (FOLDER / "README.md").read_text()
LARGEST_BYTES, LARGEST_FOLDER_BYTES = 64_000, 300_000
NAMES = re.compile(
    r"claude|codex|opencode|gemini|qwen|gpt|anthropic|openai|google|scripted|bash|exec|shell|spawn|replace|edit|"
    r"invoke|task|patch|tally|money|journal|sharing|recurring",
    re.IGNORECASE,
)
"""Of agents, models, tools and what was worked on; none of these words is one of the format's."""

each_trace = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")


@each_trace
def test_a_trace_is_spelled_as_it_is_written(path: Path) -> None:
    assert dumps(load(path)) == path.read_bytes()


@each_trace
def test_no_name_is_in_a_trace(path: Path) -> None:
    content = path.read_text().replace("tokenizer:o200k_base", "")

    assert NAMES.findall(content) == []
    assert {event.tool_name[:4] for event in load(path).events if isinstance(event, ToolCall)} == {"tool"}


@dataclass(frozen=True)
class Replayed:
    """All traces, replayed once each, one after the other."""

    traces: list[Trace]
    prompts: dict[Place, Ids]
    ran: dict[Place, tuple[float, float]]
    """When each call began and ended, in seconds."""


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    traces, folder = list(map(load, FILES)), tmp_path_factory.mktemp("replay")
    prompts = asyncio.run(replayed(traces, folder, lambda ids: ids))
    lines = map(json.loads, (folder / "results.jsonl").read_bytes().splitlines())
    ran = {
        Place(line["session"], line["call"]): (line["start_s"], line["start_s"] + line["latency_s"]) for line in lines
    }
    return Replayed(traces, prompts, ran)


def test_prompts_have_their_lengths_and_share_what_the_traces_say(replay: Replayed) -> None:
    truth = Truth.of(replay.traces, len(replay.traces))
    domains = {Place(session, call.call): call.domain for session, call in calls_of(replay.traces)}

    assert {place: len(ids) for place, ids in replay.prompts.items()} == lengths_of(replay.traces)
    for a, b in combinations(sorted(replay.prompts), 2):
        expected = truth.common(("session", *a), ("session", *b)) if domains[a] == domains[b] else 0
        one, other = replay.prompts[a], replay.prompts[b]
        assert common(one, other) == min(expected, len(one), len(other)), (a, b)


def calls_of(traces: Sequence[Trace]) -> Iterator[tuple[int, Call]]:
    for session, trace in enumerate(traces):
        yield from ((session, call) for call in trace.calls())


def test_no_call_begins_before_what_it_waits_for_has_ended(replay: Replayed) -> None:
    awaited = {
        Place(n, a): {Place(n, b) for b in of} for n, trace in enumerate(replay.traces) for a, of in waits(trace)
    }

    early = [(a, b) for a, of in awaited.items() for b in of if replay.ran[a][0] < replay.ran[b][1]]
    assert early == []
    assert sum(len(of) > 1 for of in awaited.values()) >= len(AGENTS)


def waits(trace: Trace) -> Iterator[tuple[int, set[int]]]:
    """Yield each call with those that have to end before: the one before in its branch, and the last ones of its joins."""
    last: dict[Branch | None, set[int]] = {None: set()}
    for event in trace.events:
        match event:
            case ParallelStart():
                last |= {(event.region, index): last[event.branch] for index in range(event.num_branches)}
            case ParallelEnd():
                joined = [calls for branch, calls in last.items() if branch and branch[0] == event.region]
                last[event.branch] = last[event.branch].union(*joined)
            case Call():
                yield event.call, last[event.branch]
                last[event.branch] = {event.call}


@each_trace
def test_it_waits_for_tools_and_reuses_what_was_said(path: Path) -> None:
    trace = load(path)

    assert sum(event.duration_ms for event in trace.events if isinstance(event, ToolCall)) > 0
    assert any(call.prefix.of == before.call for before, call in pairwise(trace.calls()))


@pytest.mark.parametrize(("play", "branches"), [("sub-agents", 2), ("tree", 14)])
def test_each_sub_agent_is_a_branch(play: str, branches: int) -> None:
    for path in FOLDER.glob(f"*/{play}.trace.json"):
        assert sum(event.num_branches for event in load(path).events if isinstance(event, ParallelStart)) == branches


@each_trace
def test_a_conversation_becomes_shorter_only_by_compaction(path: Path) -> None:
    *_, last = load(path).calls()
    prompts = [call.prompt_tokens for call in load(path).calls() if call.conversation_id == last.conversation_id]

    assert any(after < before for before, after in pairwise(prompts)) == path.name.startswith("compaction")


def test_the_audit_of_all_is_clean() -> None:
    done = audit(AGENTS)

    assert done.findings.kept == []
    assert done.is_clean


def test_the_command_says_so_too() -> None:
    done = CliRunner().invoke(app, ["audit", "--json", *map(str, AGENTS)])

    assert done.exit_code == 0
    assert json.loads(done.output)


def test_each_agent_has_one_and_all_are_in_the_catalogue() -> None:
    assert [path.name for path in AGENTS] == ["claude-code", "codex", "gemini-cli", "opencode", "qwen-code"]
    assert sorted(path.relative_to(FOLDER).as_posix() for path in FILES) == sorted(one.file for one in EXAMPLES)


def test_the_readme_tells_what_is_in_the_files() -> None:
    rows = rows_of(README)

    assert {name: tuple(cells[1:]) for name, cells in rows.items()} == {
        path.relative_to(FOLDER).as_posix(): figures(load(path)) for path in FILES
    }
    assert {name: cells[0] for name, cells in rows.items()} == {one.file: one.shows for one in EXAMPLES}


def test_the_command_of_the_readme_prints_the_same_rates() -> None:
    done = CliRunner().invoke(app, ["analyze", "--block-size", "16", "--no-preload", "--json", *map(str, FILES)])

    printed = [f"{row['hit_rate_tokens']:.1%}" for row in json.loads(done.stdout)["rows"] if row["scope"] == "trace"]
    assert printed == [figures(load(path))[-1] for path in FILES]
    assert COLD.preload is False


def test_they_are_small() -> None:
    sizes = [path.stat().st_size for path in FILES]

    assert max(sizes) < LARGEST_BYTES
    assert sum(sizes) < LARGEST_FOLDER_BYTES
