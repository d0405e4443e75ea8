"""What is known of the truth of scripted runs, with and without ids: `pytest -s` prints precision and recall."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_apis import APIS
from labelled_runs import IDS, Agent, Ids, Played, Script, play
from labelled_scripts import SCRIPTS
from random_runs import random_script

from rotoscope.replayer.schedule import Schedule, plan_session
from rotoscope.traces import Call, ParallelEnd, ParallelStart
from rotoscope.traces.model import Branch
from rotoscope.traces.reader import loads
from rotoscope.traces.validation import validate
from rotoscope.traces.writer import dumps

GUESSES = ("again", "answer", "rewind", "compaction")
"""Links that say themselves that they are guessed."""
NAMED: tuple[Ids, ...] = ("claude", "codex", "opencode", "own")
"""Ids that name who sends each request."""
every_kind = pytest.mark.parametrize("ids", IDS)


@cache
def runs(ids: Ids) -> dict[str, Played]:
    return {name: play(make(), ids) for name, make in SCRIPTS.items()}


def source_of(ids: Ids) -> str:
    return "own" if ids == "own" else "client"


def wrong(run: Played) -> list[Call]:
    """Return the calls that are said to go on from another call than they do."""
    compared = zip(run.calls(), run.found(), run.before, strict=True)
    return [call for call, found, truth in compared if found is not None and found != truth]


def is_further_choice(run: Played, call: Call) -> bool:
    return call.call > 0 and run.requests[call.call] is run.requests[call.call - 1]


def test_there_are_scripts_of_all_patterns() -> None:
    assert len(SCRIPTS) >= 50


@every_kind
def test_the_same_script_gives_the_same_trace(ids: Ids) -> None:
    name = "nested: 2"

    assert dumps(play(SCRIPTS[name](), ids).trace).split(b"\n")[4:] == dumps(runs(ids)[name].trace).split(b"\n")[4:]


@pytest.mark.parametrize("ids", NAMED)
def test_with_ids_of_who_sends_them_all_links_are_right(ids: Ids) -> None:
    assert {name: (run.found(), run.before) for name, run in runs(ids).items() if run.found() != run.before} == {}


@pytest.mark.parametrize("ids", NAMED)
def test_with_ids_links_say_that_they_are_known_by_them(ids: Ids) -> None:
    expected = {source_of(ids), *GUESSES, "prefix", "tools"}
    seen = [call.link for run in runs(ids).values() for call in run.calls() if call.link not in (None, "duplicate")]

    assert set(seen) <= expected
    assert sum(link == source_of(ids) for link in seen) > 0.85 * len(seen)


@every_kind
def test_no_wrong_link_is_without_a_word_of_doubt(ids: Ids) -> None:
    unsaid = {
        name: [(call.call, call.link) for call in wrong(run) if call.link not in GUESSES and not call.rivals]
        for name, run in runs(ids).items()
    }

    assert {name: calls for name, calls in unsaid.items() if calls} == {}


@every_kind
def test_a_link_is_there_exactly_where_a_conversation_goes_on(ids: Ids) -> None:
    for run in runs(ids).values():
        for call, found in zip(run.calls(), run.found(), strict=True):
            is_linked = call.link not in (None, "duplicate") or is_further_choice(run, call)
            assert is_linked == (found is not None)


@pytest.mark.parametrize("ids", ["tools", "response"])
def test_ids_of_tool_calls_and_responses_are_right_where_no_other_request_names_them(ids: Ids) -> None:
    for run in runs(ids).values():
        assert not [call for call in wrong(run) if call.link == ids and not call.rivals]


@every_kind
def test_precision_and_recall(ids: Ids) -> None:
    right = found = true = 0
    for run in runs(ids).values():
        for mine, truth in zip(run.found(), run.before, strict=True):
            right += mine is not None and mine == truth
            found += mine is not None
            true += truth is not None
    print(f"{ids}: precision {right / found:.3f} ({right} of {found}), recall {right / true:.3f} ({right} of {true})")

    assert right / found > 0.95
    assert right / true > 0.95


@pytest.mark.parametrize("api", [name for name in APIS if name != "chat"])
@pytest.mark.parametrize("ids", ["none", "claude"])
def test_links_do_not_depend_on_the_api(api: str, ids: Ids) -> None:
    spoken = {
        name: (play(make(), ids, api), runs(ids)[name])
        for name, make in SCRIPTS.items()
        if APIS[api].has_choices or name != "choices"
    }

    assert {name for name, (run, chat) in spoken.items() if run.found() != chat.found()} == set()
    for run, _ in spoken.values():
        assert not [call for call in wrong(run) if call.link not in GUESSES and not call.rivals]


@every_kind
def test_side_calls_are_tagged_and_nothing_else(ids: Ids) -> None:
    for name, run in runs(ids).items():
        for call, request in zip(run.calls(), run.requests, strict=True):
            assert request.is_aside or not call.aux, name


@pytest.mark.parametrize("ids", NAMED)
def test_titles_are_tagged_with_ids(ids: Ids) -> None:
    found = {
        name: [request.is_aside for request in run.requests] == [call.aux for call in run.calls()]
        for name, run in runs(ids).items()
        if name.startswith("side call")
    }

    waited_for = {"side call: before", "side call: behind"} if ids == "own" else set()
    assert {name for name, is_right in found.items() if not is_right} == waited_for | {
        "side call: inside a gap",
        "side call: with history",
    }


def branches(run: Played) -> dict[str, set[Branch | None]]:
    found: dict[str, set[Branch | None]] = {}
    for call, request in zip(run.calls(), run.requests, strict=True):
        found.setdefault(request.line, set()).add(call.branch)
    return found


def begun(run: Played) -> list[tuple[str, str, bool]]:
    """Return for each agent that another one began its name, the evidence of its branch, and whether that is right."""
    forks = {event.region: event for event in run.trace.events if isinstance(event, ParallelStart)}
    found = branches(run)
    told: list[tuple[str, str, bool]] = []
    for agent in run.script.agents:
        if agent.parent is not None:
            branch = min(found[agent.name], key=str)
            fork = None if branch is None else forks[branch[0]]
            evidence = (fork.evidence or "") if fork else ""
            told.append((agent.name, evidence, fork is not None and fork.branch in found[agent.parent.name]))
    return told


@every_kind
def test_agents_that_are_not_found_by_their_times_alone_hang_below_those_that_began_them(ids: Ids) -> None:
    told = [(name, *agent) for name, run in runs(ids).items() for agent in begun(run)]
    right = sum(is_right for *_, is_right in told)
    print(f"{ids}: {right} of {len(told)} agents below those that began them")

    assert not [agent for agent in told if agent[2] in ("own", "client", "prefix", "tools") and not agent[3]]
    assert right > 0.9 * len(told)


@pytest.mark.parametrize("ids", NAMED)
def test_with_ids_agents_hang_below_those_that_began_them(ids: Ids) -> None:
    for name, run in runs(ids).items():
        forks = {event.region: event for event in run.trace.events if isinstance(event, ParallelStart)}
        found = branches(run)
        for agent in run.script.agents:
            if agent.parent is None:
                continue
            (branch,) = found[agent.name]
            (above,) = found[agent.parent.name]
            assert branch is not None, name
            assert (forks[branch[0]].branch, forks[branch[0]].evidence) == (above, source_of(ids)), name


@every_kind
def test_agents_of_a_fan_out_are_found_by_their_times(ids: Ids) -> None:
    for name, run in runs(ids).items():
        if name.startswith(("fan out", "one after another")):
            found = branches(run)
            for agent in run.script.agents:
                assert (None in found[agent.name]) == (agent.parent is None), name


@every_kind
def test_all_traces_are_valid_and_survive_the_file(ids: Ids) -> None:
    for run in runs(ids).values():
        validate(run.trace)
        assert loads(dumps(run.trace)) == run.trace


@every_kind
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_so_it_is_with_random_runs(ids: Ids, seed: int) -> None:
    run = play(random_script(seed), ids)
    if ids in NAMED:
        assert not wrong(run)
    for call in wrong(run):
        is_copy = run.requests[call.call].before is None and run.requests[call.call].origin is not None
        assert call.link in GUESSES or call.rivals or is_copy


def waits(schedule: Schedule) -> dict[int, set[int]]:
    """Return for each call the calls that must have ended before it starts."""
    behind: list[set[int]] = []
    found: dict[int, set[int]] = {}
    for step in schedule.steps:
        before = {x for index in step.after for x in behind[index]}
        before |= {call for index in step.after if (call := schedule.steps[index].call) is not None}
        behind.append(before)
        if step.call is not None:
            found[step.call] = before
    return found


@every_kind
def test_a_replay_keeps_the_order_and_lets_run_together_what_did(ids: Ids) -> None:
    for name, run in runs(ids).items():
        before = waits(plan_session(run.trace))
        requests = run.requests
        for call, found in enumerate(run.found()):
            if found is not None and not is_further_choice(run, run.calls()[call]):
                assert found in before[call], name
            for other in before[call]:
                assert other < call, name
                assert requests[other].how == "lost" or requests[other].end_s <= requests[call].start_s, name


def family(script: Script, agent: Agent, *, start: float, length: float, levels: int) -> None:
    """Let an agent begin two others with the same prompt, which do the same, down to a number of levels."""
    if levels == 0:
        agent.work([(start, start + length / 3), (start + length / 2, start + length)])
        return
    agent.ask(start, start + length / 10, asks=2)
    for index in range(2):
        child = script.agent(f"{agent.name}{index}", agent, instructions="You are a sub-agent.", task="Do your part.")
        family(script, child, start=start + length * (0.2 + 0.001 * index), length=length * 0.6, levels=levels - 1)
    agent.results()
    agent.ask(start + length * 0.9, start + length)


@pytest.mark.parametrize("ids", NAMED)
def test_62_agents_to_the_depth_of_5_with_the_same_prompts_are_rebuilt_exactly(ids: Ids) -> None:
    script = Script()
    family(script, script.agent("m"), start=0.0, length=1e5, levels=5)
    run = play(script, ids)
    found = branches(run)
    forks = {event.region: event for event in run.trace.events if isinstance(event, ParallelStart)}
    joins = sum(isinstance(event, ParallelEnd) for event in run.trace.events)

    assert (len(script.agents), len(forks), joins) == (63, 31, 31)
    assert run.found() == run.before
    for agent in script.agents[1:]:
        (branch,) = found[agent.name]
        assert agent.parent is not None
        assert branch is not None
        assert {forks[branch[0]].branch} == found[agent.parent.name]
    before = waits(plan_session(run.trace))
    for agent in script.agents:
        first, last = (x for x, request in enumerate(run.requests) if request.line == agent.name)
        below = {x for x, request in enumerate(run.requests) if request.line.startswith(agent.name)}
        assert below - {last} <= before[last]
        assert before[first] == {x for x in before[first] if agent.name.startswith(run.requests[x].line)}


@pytest.mark.parametrize("ids", NAMED)
def test_side_calls_beside_the_work_stand_below_their_sender(ids: Ids) -> None:
    run = runs(ids)["side call: beside"]
    (fork,) = [event for event in run.trace.events if isinstance(event, ParallelStart)]

    assert (fork.branch, fork.evidence) == (None, source_of(ids))
    assert [call.branch for call in run.calls() if call.aux] == [(fork.region, 0)]
