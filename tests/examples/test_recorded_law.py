"""Law: each agent is recorded by the command of its README as it went, and a replay of its trace is like it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from asked_models import Asked
from recorded_examples import recorded
from replayed_traces import Replayed, awaited, check_order, check_prefixes, replay_once

from examples import scripted_model
from examples.deep_research.agent import HERE, deep_research
from examples.tasks import load_tasks
from rotoscope.traces import Call, ParallelEnd, ParallelStart, Trace
from rotoscope.traces.audit import audit
from rotoscope.traces.model import ToolCall
from rotoscope.traces.validation import validate

ROUNDS = 4
DEPTH, CANDIDATES, TRIED, KEPT = 2, 3, 2, 2
RUNS = {
    "react": ("--seed", "4", "--no-stream"),
    "deep_research": ("--task", "2", "--seed", "1", "--no-stream"),
    "iterative_research": ("--task", "2", "--seed", "1", "--rounds", str(ROUNDS), "--no-stream"),
    "tree_of_thought": ("--seed", "3", "--depth", str(DEPTH), "--tried", str(TRIED), "--no-stream"),
    "agentic_rag": ("--task", "1", "--seed", "1"),
}
"""Runs that look for documents more than once, and that delegate twice."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def traces(folder: Path) -> dict[str, Trace]:
    return recorded(folder, RUNS)


@pytest.fixture(scope="module")
def replay(traces: dict[str, Trace], folder: Path) -> Replayed:
    return replay_once(list(traces.values()), folder / "replay")


def test_traces_are_valid_and_hold_nothing_that_was_said(traces: dict[str, Trace], folder: Path) -> None:
    for trace in traces.values():
        validate(trace)
    assert audit([folder / "traces"]).is_clean


def test_tools_and_branches_are_those_that_the_agents_told_of(traces: dict[str, Trace]) -> None:
    for trace in traces.values():
        assert {tool.time_source for tool in tools(trace)} == {"sdk"}
        assert {start.evidence for start in regions(trace)} <= {"own"}


def test_replays_share_what_was_shared(replay: Replayed) -> None:
    check_prefixes(replay)


def test_replays_wait_for_what_the_agents_waited_for(replay: Replayed) -> None:
    check_order(replay)
    most = [
        max(len(of) for place, of in awaited(replay.traces).items() if place.session == n) for n in range(len(RUNS))
    ]
    assert most[0] == most[2] == 1
    assert most[1] > 3  # researchers, and the supervisor that led them
    assert most[3] >= KEPT * CANDIDATES
    assert most[4] > 1


def test_a_coder_has_one_growing_conversation(traces: dict[str, Trace]) -> None:
    calls = list(traces["react"].calls())

    assert len({call.conversation_id for call in calls}) == 1
    assert all(later.prefix.of == earlier.call for earlier, later in pairwise(calls))
    assert regions(traces["react"]) == []


@pytest.fixture(scope="module")
def research() -> Asked:
    """The run of deep research that is recorded, without a wire."""
    asked = Asked(scripted_model.answer, seed=1)
    asyncio.run(deep_research(asked, load_tasks(HERE)[1]["question"]))
    return asked


def delegations(asked: Asked) -> list[int]:
    """Return how many topics each delegation had."""
    calls = [one for said in asked.answers for one in said.tool_calls if one.name == "delegate"]
    return [len(json.loads(one.arguments)["topics"]) for one in calls]


def test_each_delegation_is_a_region_with_a_branch_for_each_researcher(
    traces: dict[str, Trace], research: Asked
) -> None:
    starts = regions(traces["deep_research"])

    assert [start.num_branches for start in starts] == delegations(research)
    assert len(starts) == 2
    assert {start.branch for start in starts} == {None}


def test_a_researcher_is_one_conversation_and_what_compresses_it(traces: dict[str, Trace], research: Asked) -> None:
    calls = list(traces["deep_research"].calls())
    branches = {call.branch for call in calls} - {None}

    for branch in branches:
        *steps, last = (call for call in calls if call.branch == branch)
        assert len({call.conversation_id for call in steps}) == 1
        assert last.conversation_id not in {call.conversation_id for call in steps}
        assert last.prefix.of not in {call.prefix.of for call in steps}
    assert len(branches) == sum(delegations(research))


def test_the_report_comes_after_the_last_join_and_the_supervisors_end(traces: dict[str, Trace]) -> None:
    kinds = [type(event) for event in traces["deep_research"].events if isinstance(event, ParallelEnd | Call)]

    assert kinds[-3:] == [ParallelEnd, Call, Call]


def test_the_same_seed_gives_the_same_calls_and_tools_over_the_wire(traces: dict[str, Trace], research: Asked) -> None:
    trace = traces["deep_research"]

    assert len(list(trace.calls())) == len(research.answers)
    asked_for = Counter(one.name for said in research.answers for one in said.tool_calls)
    assert sorted(Counter(tool.tool_name for tool in tools(trace)).values()) == sorted(
        [asked_for["search"], asked_for["read"]]
    )


def test_prompts_of_rounds_share_the_system_prompt_and_nothing_else(traces: dict[str, Trace]) -> None:
    calls = list(traces["iterative_research"].calls())
    ids = {call.prefix.of for call in calls}
    system, without_tools = (one for one in traces["iterative_research"].shared_prefixes if one.id in ids or one.prefix)

    assert len({call.conversation_id for call in calls}) == len(calls) == ROUNDS
    first, *middle, last = ((call.prefix.of, call.prefix.tokens) for call in calls)
    assert {first, *middle} == {(system.id, system.tokens)}
    assert last == (system.id, without_tools.tokens)  # the last round is given no tools
    assert system.tokens < min(call.prompt_tokens for call in calls)


def test_rounds_follow_one_another_with_one_tool_between(traces: dict[str, Trace]) -> None:
    events = traces["iterative_research"].events
    kinds = [type(event) for event in events if isinstance(event, Call | ParallelStart | ToolCall)]

    assert kinds == [Call, *([ToolCall, Call] * (ROUNDS - 1))]


def test_each_depth_of_a_tree_is_two_fan_outs_of_all_candidates(traces: dict[str, Trace]) -> None:
    starts = regions(traces["tree_of_thought"])
    ends = [event.region for event in traces["tree_of_thought"].events if isinstance(event, ParallelEnd)]

    assert [start.num_branches for start in starts] == 2 * [CANDIDATES] + 2 * [KEPT * CANDIDATES]
    assert {start.branch for start in starts} == {None}
    assert ends == [start.region for start in starts]


def test_a_branch_of_a_tree_proposes_or_tries_and_judges_and_the_root_answers(traces: dict[str, Trace]) -> None:
    trace = traces["tree_of_thought"]
    starts = [start.region for start in regions(trace)]
    proposals, verdicts = set(starts[::2]), set(starts[1::2])
    lengths = Counter(call.branch for call in trace.calls())

    assert [call for call in trace.calls() if call.branch is None] == [list(trace.calls())[-1]]
    assert all(lengths[branch] == 1 for branch in lengths if branch and branch[0] in proposals)
    tried = [branch for branch in lengths if branch and branch[0] in verdicts and lengths[branch] == 2]
    assert 0 < len(tried) <= DEPTH * TRIED
    assert sorted(str(tool.branch) for tool in tools(trace)) == sorted(map(str, tried))


def test_each_document_is_read_and_graded_on_a_branch_of_its_own(traces: dict[str, Trace]) -> None:
    trace = traces["agentic_rag"]
    graded = [call.branch for call in trace.calls() if call.branch is not None]

    assert len(regions(trace)) > 1
    assert len(graded) == len(set(graded)) == sum(start.num_branches for start in regions(trace))
    assert sorted(filter(None, (tool.branch for tool in tools(trace)))) == sorted(graded)
    assert any(tool.branch is None for tool in tools(trace))  # searches, which the root waits for


def test_the_root_of_retrieval_plans_answers_checks_and_answers_at_last(traces: dict[str, Trace]) -> None:
    trace = traces["agentic_rag"]
    looked = len(regions(trace))
    root = [call for call in trace.calls() if call.branch is None]

    assert len(root) in (2 + 2 * looked, 2 + 2 * (looked + 1))  # the last round may find nothing that is new
    assert root[-1] == list(trace.calls())[-1]
    assert root[-1].conversation_id == root[-2].conversation_id == root[-3].conversation_id


def test_an_answer_begins_with_the_documents_of_the_round_before(traces: dict[str, Trace]) -> None:
    root = [call for call in traces["agentic_rag"].calls() if call.branch is None]

    for earlier, later in pairwise(root[1:-1:2]):
        assert later.prefix.of == earlier.call
        assert later.prefix.tokens > 0.9 * earlier.prompt_tokens


def tools(trace: Trace) -> list[ToolCall]:
    return [event for event in trace.events if isinstance(event, ToolCall)]


def regions(trace: Trace) -> list[ParallelStart]:
    return [event for event in trace.events if isinstance(event, ParallelStart)]
