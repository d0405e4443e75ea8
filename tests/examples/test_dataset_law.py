"""Law: the traces of agent patterns in examples/traces are valid, hold no content and no name, and replay as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from replayed_traces import Replayed, awaited, check_order, check_prefixes, replay_once

from rotoscope.traces import ParallelStart, dumps, load
from rotoscope.traces.audit import audit
from rotoscope.traces.model import ToolCall
from scripts.dataset.patterns import PATTERNS
from scripts.example_traces.table import FOLDER

FILES = [path for pattern in PATTERNS for path in sorted((FOLDER / pattern.name).glob("*.trace.json"))]
PARALLEL = {"deep_research", "tree_of_thought", "agentic_rag"}
LARGEST_BYTES, LARGEST_FOLDER_BYTES = 64_000, 300_000
NAMES = re.compile(
    r"scripted|read|search|calculate|delegate|edit|command|thinker|judge|propose|grader|researcher|supervisor|"
    r"coder|solver|tally|money|water",
    re.IGNORECASE,
)
"""Of agents, branches, models and tools, and what they worked on; none of these words is one of the format's."""

each_trace = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")


@each_trace
def test_a_trace_is_spelled_as_it_is_written(path: Path) -> None:
    assert dumps(load(path)) == path.read_bytes()


@each_trace
def test_no_name_is_in_a_trace(path: Path) -> None:
    assert NAMES.findall(path.read_text()) == []


@each_trace
def test_tools_and_branches_are_those_that_the_agent_told_of(path: Path) -> None:
    events = load(path).events

    starts = [event for event in events if isinstance(event, ParallelStart)]
    assert {start.evidence for start in starts} == ({"own"} if path.parent.name in PARALLEL else set())
    assert {event.time_source for event in events if isinstance(event, ToolCall)} == {"sdk"}


def test_the_audit_of_all_is_clean() -> None:
    assert audit(sorted({path.parent for path in FILES})).is_clean


def test_they_are_one_campaign_and_two_runs_of_a_pattern_share_their_instructions() -> None:
    traces = {path: load(path) for path in FILES}

    assert len({trace.campaign for trace in traces.values()}) == 1
    for pattern in PATTERNS:
        one, other = (
            {prefix.id for prefix in trace.shared_prefixes if prefix.kind == "system"}
            for path, trace in traces.items()
            if path.parent.name == pattern.name
        )
        assert one & other


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """One trace of each pattern is enough: the other one is as like it as two runs of an agent are."""
    return replay_once(list(map(load, FILES[1::2])), tmp_path_factory.mktemp("replay"))


def test_prompts_have_their_lengths_and_share_what_the_traces_say(replay: Replayed) -> None:
    check_prefixes(replay)


def test_no_call_begins_before_what_it_waits_for_has_ended(replay: Replayed) -> None:
    check_order(replay)
    assert sum(len(of) > 1 for of in awaited(replay.traces).values()) >= len(PARALLEL)


def test_they_are_small() -> None:
    sizes = [path.stat().st_size for path in FILES]

    assert max(sizes) < LARGEST_BYTES
    assert sum(sizes) < LARGEST_FOLDER_BYTES
