"""Law: a tree is recorded as it grew, the same seed grows the same one, and a replay is like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_suites import record_suite
from replayed_traces import Replayed, awaited, check_order, check_prefixes, replay_once
from same_runs import calls_and_prefixes

from rotoscope.traces import Call, ParallelEnd, ParallelStart, Trace
from rotoscope.traces.audit import audit
from rotoscope.traces.model import ToolCall
from rotoscope.traces.validation import validate

SEED, DEPTH, CANDIDATES, TRIED, KEPT = 3, 2, 3, 2, 2
SHAPE = ("--depth", str(DEPTH), "--tried", str(TRIED), "--no-stream")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def traces(folder: Path) -> list[Trace]:
    return record_suite("tree_of_thought", (SEED, SEED), folder, *SHAPE)


@pytest.fixture(scope="module")
def trace(traces: list[Trace]) -> Trace:
    return traces[0]


@pytest.fixture(scope="module")
def replay(trace: Trace, folder: Path) -> Replayed:
    return replay_once([trace], folder / "replay")


def test_the_trace_is_valid_and_holds_nothing_that_was_said(trace: Trace, folder: Path) -> None:
    validate(trace)
    assert audit([folder / "traces"]).is_clean


def test_each_depth_is_two_fan_outs_of_all_candidates(trace: Trace) -> None:
    starts = [event for event in trace.events if isinstance(event, ParallelStart)]

    assert [start.num_branches for start in starts] == 2 * [CANDIDATES] + 2 * [KEPT * CANDIDATES]
    assert {start.evidence for start in starts} == {"own"}
    assert {start.branch for start in starts} == {None}
    assert [event.region for event in trace.events if isinstance(event, ParallelEnd)] == [s.region for s in starts]


def test_a_branch_proposes_or_tries_and_judges_and_the_root_answers(trace: Trace) -> None:
    starts = [event.region for event in trace.events if isinstance(event, ParallelStart)]
    proposals, verdicts = set(starts[::2]), set(starts[1::2])
    lengths = {branch: sum(call.branch == branch for call in trace.calls()) for branch in branches(trace)}

    assert [call for call in trace.calls() if call.branch is None] == [list(trace.calls())[-1]]
    assert all(lengths[branch] == 1 for branch in lengths if branch and branch[0] in proposals)
    tried = [branch for branch in lengths if branch and branch[0] in verdicts and lengths[branch] == 2]
    assert 0 < len(tried) <= DEPTH * TRIED
    tools = [event for event in trace.events if isinstance(event, ToolCall)]
    assert sorted(str(tool.branch) for tool in tools) == sorted(map(str, tried))
    assert {tool.time_source for tool in tools} == {"sdk"}


def branches(trace: Trace) -> set[tuple[int, int] | None]:
    return {event.branch for event in trace.events if isinstance(event, Call)}


def test_the_same_seed_grows_the_same_tree(traces: list[Trace]) -> None:
    one, other = traces

    assert calls_and_prefixes(one) == calls_and_prefixes(other)


def test_a_replay_shares_what_was_shared(replay: Replayed) -> None:
    check_prefixes(replay)


def test_a_replay_waits_for_all_candidates_of_a_depth(replay: Replayed) -> None:
    check_order(replay)
    *_, last = (awaited(replay.traces)[place] for place in sorted(replay.ran))
    assert len(last) >= KEPT * CANDIDATES
