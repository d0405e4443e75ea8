"""Law: retrieval is recorded as it went, the same seed goes the same way, and a replay is like it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from recorded_suites import record_suite
from replayed_traces import Replayed, awaited, check_order, check_prefixes, replay_once
from same_runs import calls_and_prefixes

from rotoscope.traces import ParallelStart, Trace
from rotoscope.traces.audit import audit
from rotoscope.traces.model import ToolCall
from rotoscope.traces.validation import validate

SEED = 1
"""A run that looks for documents more than once."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def traces(folder: Path) -> list[Trace]:
    return record_suite("agentic_rag", (SEED, SEED), folder, "--no-stream")


@pytest.fixture(scope="module")
def trace(traces: list[Trace]) -> Trace:
    return traces[0]


@pytest.fixture(scope="module")
def replay(trace: Trace, folder: Path) -> Replayed:
    return replay_once([trace], folder / "replay")


def test_the_trace_is_valid_and_holds_nothing_that_was_said(trace: Trace, folder: Path) -> None:
    validate(trace)
    assert audit([folder / "traces"]).is_clean


def test_each_document_is_read_and_graded_on_a_branch_of_its_own(trace: Trace) -> None:
    starts = [event for event in trace.events if isinstance(event, ParallelStart)]
    graded = [call.branch for call in trace.calls() if call.branch is not None]

    assert len(starts) > 1
    assert {start.evidence for start in starts} == {"own"}
    assert len(graded) == len(set(graded)) == sum(start.num_branches for start in starts)
    tools = [event for event in trace.events if isinstance(event, ToolCall)]
    assert {tool.time_source for tool in tools} == {"sdk"}
    assert sorted(filter(None, (tool.branch for tool in tools))) == sorted(graded)
    assert any(tool.branch is None for tool in tools)  # searches, which the root waits for


def test_the_root_plans_answers_checks_and_answers_at_last(trace: Trace) -> None:
    looked = sum(isinstance(event, ParallelStart) for event in trace.events)
    root = [call for call in trace.calls() if call.branch is None]

    assert len(root) in (2 + 2 * looked, 2 + 2 * (looked + 1))  # the last round may find nothing that is new
    assert root[-1] == list(trace.calls())[-1]
    assert root[-1].conversation_id == root[-2].conversation_id == root[-3].conversation_id


def test_an_answer_begins_with_the_documents_of_the_round_before(trace: Trace) -> None:
    root = [call for call in trace.calls() if call.branch is None]
    answers = root[1:-1:2]

    for earlier, later in pairwise(answers):
        assert later.prefix.of == earlier.call
        assert later.prefix.tokens > 0.9 * earlier.prompt_tokens


def test_the_same_seed_goes_the_same_way(traces: list[Trace]) -> None:
    one, other = traces

    assert calls_and_prefixes(one) == calls_and_prefixes(other)


def test_a_replay_shares_what_was_shared(replay: Replayed) -> None:
    check_prefixes(replay)


def test_a_replay_waits_for_all_grades(replay: Replayed) -> None:
    check_order(replay)
    assert max(map(len, awaited(replay.traces).values())) > 1
