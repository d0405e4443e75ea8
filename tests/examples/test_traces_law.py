"""Law: the traces in examples/traces are valid, hold no content and no name, replay as they say, and are described."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from replayed_traces import Replayed, awaited, check_order, check_prefixes, replay_once
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.traces import ParallelStart, dumps, load
from rotoscope.traces.audit import audit
from rotoscope.traces.model import ToolCall
from scripts.dataset.patterns import PATTERNS
from scripts.example_traces.catalogue import EXAMPLES
from scripts.example_traces.table import COLD, FOLDER, figures, files, rows_of

FILES = files(FOLDER)
"""Of coding agents."""
AGENTS = sorted({path.parent for path in FILES})
OF_PATTERNS = [path for pattern in PATTERNS for path in sorted((FOLDER / pattern.name).glob("*.trace.json"))]
PARALLEL = {"deep_research", "tree_of_thought", "agentic_rag"}
REPLAYED = {"agents": FILES, "patterns": OF_PATTERNS[1::2]}
"""Of a pattern one trace is enough: the other one is as like it as two runs of an agent are."""
README = (FOLDER / "README.md").read_text()
LARGEST_BYTES, LARGEST_FOLDER_BYTES = 64_000, 300_000
NAMES = re.compile(
    r"claude|codex|opencode|gemini|qwen|gpt|anthropic|openai|google|scripted|bash|exec|shell|spawn|replace|edit|"
    r"invoke|task|patch|tally|money|journal|sharing|recurring|read|search|calculate|delegate|command|thinker|judge|"
    r"propose|grader|supervisor|coder|solver|water",
    re.IGNORECASE,
)
"""Of agents, models, tools and what was worked on; none of these words is one of the format's."""


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.split('.')[0]}"


each_trace = pytest.mark.parametrize("path", [*FILES, *OF_PATTERNS], ids=name_of)
each_of_an_agent = pytest.mark.parametrize("path", FILES, ids=name_of)
each_of_a_pattern = pytest.mark.parametrize("path", OF_PATTERNS, ids=name_of)


@each_trace
def test_a_trace_is_spelled_as_it_is_written(path: Path) -> None:
    assert dumps(load(path)) == path.read_bytes()


@each_trace
def test_no_name_is_in_a_trace(path: Path) -> None:
    content = path.read_text().replace("tokenizer:o200k_base", "")

    assert NAMES.findall(content) == []
    assert {event.tool_name[:4] for event in load(path).events if isinstance(event, ToolCall)} == {"tool"}


@each_of_a_pattern
def test_tools_and_branches_are_those_that_the_agent_told_of(path: Path) -> None:
    events = load(path).events

    starts = [event for event in events if isinstance(event, ParallelStart)]
    assert {start.evidence for start in starts} == ({"own"} if path.parent.name in PARALLEL else set())
    assert {event.time_source for event in events if isinstance(event, ToolCall)} == {"sdk"}


@pytest.fixture(scope="module", params=REPLAYED)
def replay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replay_once(list(map(load, REPLAYED[request.param])), tmp_path_factory.mktemp("replay"))


def test_prompts_have_their_lengths_and_share_what_the_traces_say(replay: Replayed) -> None:
    check_prefixes(replay)


def test_no_call_begins_before_what_it_waits_for_has_ended(replay: Replayed) -> None:
    check_order(replay)
    assert sum(len(of) > 1 for of in awaited(replay.traces).values()) >= len(PARALLEL)


@each_of_an_agent
def test_it_waits_for_tools_and_reuses_what_was_said(path: Path) -> None:
    trace = load(path)

    assert sum(event.duration_ms for event in trace.events if isinstance(event, ToolCall)) > 0
    assert any(call.prefix.of == before.call for before, call in pairwise(trace.calls()))


@pytest.mark.parametrize(("play", "branches"), [("sub-agents", 2), ("tree", 14)])
def test_each_sub_agent_is_a_branch(play: str, branches: int) -> None:
    for path in FOLDER.glob(f"*/{play}.trace.json"):
        assert sum(event.num_branches for event in load(path).events if isinstance(event, ParallelStart)) == branches


@each_of_an_agent
def test_a_conversation_becomes_shorter_only_by_compaction(path: Path) -> None:
    *_, last = load(path).calls()
    prompts = [call.prompt_tokens for call in load(path).calls() if call.conversation_id == last.conversation_id]

    assert any(after < before for before, after in pairwise(prompts)) == path.name.startswith("compaction")


def test_those_of_the_patterns_are_a_corpus_of_their_own() -> None:
    of_agents, of_patterns = ({load(path).campaign for path in paths} for paths in (FILES, OF_PATTERNS))

    assert len(of_agents) == len(of_patterns) == 1
    assert of_agents != of_patterns
    assert len({load(path).trace_id for path in [*FILES, *OF_PATTERNS]}) == len(FILES) + len(OF_PATTERNS)
    assert sorted([*FILES, *OF_PATTERNS]) == sorted(FOLDER.glob("*/*.trace.json"))


def test_two_runs_of_a_pattern_share_their_instructions() -> None:
    for pattern in PATTERNS:
        one, other = (
            {prefix.id for prefix in load(path).shared_prefixes if prefix.kind == "system"}
            for path in OF_PATTERNS
            if path.parent.name == pattern.name
        )
        assert one & other


def test_the_audit_of_all_is_clean() -> None:
    done = audit(sorted({path.parent for path in [*FILES, *OF_PATTERNS]}))

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
    for paths in (FILES, OF_PATTERNS):
        sizes = [path.stat().st_size for path in paths]
        assert max(sizes) < LARGEST_BYTES
        assert sum(sizes) < LARGEST_FOLDER_BYTES
