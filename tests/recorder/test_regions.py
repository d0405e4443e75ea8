from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from chat_wire import Wire, assistant, result, system, tool_call, user

from rotoscope.recorder import regions
from rotoscope.recorder.calls import gather
from rotoscope.recorder.conversations import find_turns
from rotoscope.recorder.descent import Conversation
from rotoscope.recorder.links import Linker
from rotoscope.recorder.regions import Lanes, find_lanes
from rotoscope.recorder.told import Told
from rotoscope.traces.journal import CallOpened
from rotoscope.traces.model import Branch


def lanes_of(*calls: tuple[str, float, float]) -> Lanes:
    """Return the lanes of calls, each in the conversation of a name, from one second to another."""
    wire = Wire()
    moments = sorted(
        [(start, 1, index) for index, (_, start, _) in enumerate(calls)]
        + [(end, 0, index) for index, (_, _, end) in enumerate(calls)]
    )
    lists = {name: [system("s"), user(name)] for name, _, _ in calls}
    open_calls = {}
    for at, is_start, index in moments:
        name = calls[index][0]
        if is_start:
            open_calls[index] = wire.ask(lists[name], at=at)
        elif at < float("inf"):
            answer = assistant(f"answer {index}")
            wire.answer(open_calls[index], answer, at=at)
            lists[name] = [*lists[name], answer, user("go on")]
    run = gather(wire.written().records)
    return find_lanes(run, find_turns(run, Linker(run).find()), Told())


def test_conversations_that_never_overlap_run_in_the_root() -> None:
    lanes = lanes_of(("root", 0, 1), ("helper", 2, 3), ("root", 4, 5), ("helper", 6, 7))

    assert lanes.branches == {0: None, 1: None}
    assert lanes.regions == []


TOOLS = [{"type": "function", "function": {"name": "search"}}]


def rounds(*, instructions: Sequence[str] = "sss", tools: Sequence[list[dict[str, Any]]] = (TOOLS,) * 3) -> Lanes:
    """Return the lanes of conversations, one after another, that all end by asking for a tool."""
    wire = Wire()
    for number, (system_prompt, offered) in enumerate(zip(instructions, tools, strict=True)):
        asked = wire.ask([system(system_prompt), user(f"round {number}")], at=2 * number, tools=offered)
        wire.answer(asked, assistant(calls=[tool_call(f"{number}")]), at=2 * number + 1)
    run = gather(wire.written().records)
    return find_lanes(run, find_turns(run, Linker(run).find()), Told())


def test_an_agent_that_makes_its_prompt_anew_stays_in_its_branch() -> None:
    assert rounds().regions == []
    assert rounds(tools=(TOOLS, TOOLS, [])).regions == []


def test_other_instructions_or_other_tools_are_another_agents() -> None:
    other = [{"type": "function", "function": {"name": "read"}}]

    assert [region.evidence for region in rounds(instructions="sst").regions] == ["time"]
    assert [region.evidence for region in rounds(tools=(TOOLS, TOOLS, other)).regions] == ["time"]


def test_an_agent_that_has_ended_before_the_results_are_sent_is_no_prompt_made_anew() -> None:
    wire = Wire()
    asked = wire.ask([system("s"), user("a")], at=0, tools=TOOLS)
    wire.answer(asked, assistant(calls=[tool_call("1")]), at=1)
    wire.answer(wire.ask([system("s"), user("b")], at=2, tools=TOOLS), assistant("done"), at=3)
    results = [system("s"), user("a"), assistant(calls=[tool_call("1")]), result("1", "done")]
    wire.answer(wire.ask(results, at=4, tools=TOOLS), assistant("c"), at=5)
    run = gather(wire.written().records)

    lanes = find_lanes(run, find_turns(run, Linker(run).find()), Told())

    assert [region.evidence for region in lanes.regions] == ["tools"]


def test_conversations_that_overlap_are_branches_of_one_region() -> None:
    lanes = lanes_of(("root", 0, 1), ("a", 2, 4), ("b", 3, 5), ("root", 6, 7))
    (region,) = lanes.regions

    assert lanes.branches == {0: None, 1: (0, 0), 2: (0, 1)}
    assert (region.begins_before, region.last_call) == (1, 2)
    assert (region.start_ms, region.end_ms) == (2000.0, 5000.0)


def test_conversations_hang_together_by_any_overlap() -> None:
    lanes = lanes_of(("root", 0, 1), ("a", 2, 4), ("b", 3, 6), ("c", 5, 7))

    assert lanes.branches == {0: None, 1: (0, 0), 2: (0, 1), 3: (0, 2)}


def test_sets_that_do_not_overlap_are_two_regions() -> None:
    lanes = lanes_of(("root", 0, 1), ("a", 2, 4), ("b", 3, 5), ("root", 6, 7), ("c", 8, 10), ("d", 9, 11))

    assert [region.conversations for region in lanes.regions] == [[1, 2], [3, 4]]


def test_a_conversation_beside_the_root_alone_is_a_region_of_one_branch() -> None:
    lanes = lanes_of(("root", 0, 4), ("a", 2, 5), ("root", 6, 7))
    (region,) = lanes.regions

    assert lanes.branches == {0: None, 1: (0, 0)}
    assert (region.begins_before, region.start_ms) == (0, 0.0)


def test_two_helpers_beside_the_root_at_different_times_are_two_regions() -> None:
    lanes = lanes_of(("root", 0, 10), ("a", 1, 2), ("b", 3, 4))

    assert [region.conversations for region in lanes.regions] == [[1], [2]]


def test_a_whole_conversation_is_a_branch_where_one_of_its_calls_overlaps() -> None:
    lanes = lanes_of(("root", 0, 1), ("a", 2, 3), ("a", 4, 6), ("b", 5, 7), ("b", 8, 9), ("root", 10, 11))
    (region,) = lanes.regions

    assert (region.begins_before, region.start_ms, region.end_ms) == (1, 2000.0, 9000.0)


def test_a_call_that_never_ended_overlaps_with_all_that_follow() -> None:
    lanes = lanes_of(("root", 0, 1), ("a", 2, float("inf")), ("b", 3, 4))
    (region,) = lanes.regions

    assert lanes.branches == {0: None, 1: (0, 0), 2: (0, 1)}
    assert region.end_ms == float("inf")


def test_a_call_that_begins_as_another_ends_does_not_overlap() -> None:
    assert lanes_of(("root", 0, 1), ("a", 1, 2), ("b", 2, 3)).regions == []


def branches_of(*calls: tuple[str, str, float, float]) -> dict[str, tuple[Branch | None, str | None]]:
    """Return branch and evidence of agents; a call is (who, who began that one, start, end), all with ids."""
    wire = Wire()
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name, *_ in calls))}
    lists = {name: [system("s"), user(name)] for name in numbers}
    open_calls = {}
    moments = [(start, 1, index) for index, (_, _, start, _) in enumerate(calls)]
    for at, is_start, index in sorted([*moments, *((end, 0, index) for index, (*_, end) in enumerate(calls))]):
        name = calls[index][0]
        if is_start:
            open_calls[index] = wire.ask(lists[name], at=at)
        else:
            wire.answer(open_calls[index], assistant(f"answer {index}"), at=at)
            lists[name] = [*lists[name], assistant(f"answer {index}"), user("go on")]
    order = sorted(range(len(calls)), key=lambda index: calls[index][2])
    records = []
    for record in wire.written().records:
        if isinstance(record, CallOpened):
            name, parent, *_ = calls[order[record.call]]
            above = numbers[parent] if parent else None
            record = replace(record, thread=numbers[name], parent=above, thread_source="own")
        records.append(record)
    run = gather(records)
    turns = find_turns(run, Linker(run).find())
    lanes = find_lanes(run, turns, Told())
    evidence = {region.number: region.evidence for region in lanes.regions}
    found: dict[str, tuple[Branch | None, str | None]] = {}
    for call, turn in zip(run.calls, turns, strict=True):
        branch = lanes.branches[turn.conversation]
        found[calls[order[call.number]][0]] = branch, evidence[branch[0]] if branch else None
    return found


def test_agents_have_branches_below_those_that_began_them() -> None:
    found = branches_of(
        ("m", "", 0, 1),
        ("a", "m", 2, 3),
        ("b", "m", 2, 4),
        ("a1", "a", 4, 5),
        ("a2", "a", 4, 6),
        ("a", "m", 7, 8),
        ("m", "", 9, 10),
    )

    assert found == {
        "m": (None, None),
        "a": ((0, 0), "own"),
        "b": ((0, 1), "own"),
        "a1": ((1, 0), "own"),
        "a2": ((1, 1), "own"),
    }


def test_agents_one_after_another_are_regions_of_their_own() -> None:
    found = branches_of(("m", "", 0, 1), ("a", "m", 2, 3), ("b", "m", 4, 5), ("m", "", 6, 7))

    assert [found[name][0] for name in "ab"] == [(0, 0), (1, 0)]


def test_an_agent_that_its_parent_does_not_wait_for_has_a_region_of_its_own() -> None:
    found = branches_of(("m", "", 0, 1), ("a", "m", 2, 3), ("b", "m", 2, 9), ("m", "", 4, 5), ("m", "", 10, 11))

    assert [found[name][0] for name in "ab"] == [(0, 0), (1, 0)]


def test_a_region_begins_before_the_call_in_flight_of_the_one_that_began_it() -> None:
    lanes = lanes_of(("root", 0, 1), ("root", 2, 5), ("a", 3, 4), ("root", 6, 7))
    (region,) = lanes.regions

    assert (region.begins_before, region.start_ms, region.evidence) == (1, 2000.0, "time")


def looked_at(prompts: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many conversations are compared where an agent makes each of its prompts anew."""
    counted = [0]
    overlapping = regions._overlapping

    def counting(conversations: Sequence[Conversation], line: Sequence[Conversation]) -> list[list[int]]:
        counted[0] += len(conversations) + len(line)
        return overlapping(conversations, line)

    wire = Wire()
    for index in range(prompts):
        asking = assistant(calls=[tool_call(str(index))])
        wire.call([system("s"), user(str(index))], asking, start=2 * index, end=2 * index + 1)
    run = gather(wire.written().records)
    with monkeypatch.context() as patch:
        patch.setattr(regions, "_overlapping", counting)
        lanes = find_lanes(run, find_turns(run, Linker(run).find()), Told())
    assert set(lanes.branches.values()) == {None}
    return counted[0]


def test_work_grows_with_the_prompts_that_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < looked_at(80, monkeypatch) <= 5 * looked_at(20, monkeypatch)
