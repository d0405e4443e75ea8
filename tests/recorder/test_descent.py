from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from chat_wire import Wire, assistant, result, system, tool_call, user

from rotoscope.recorder.calls import gather
from rotoscope.recorder.conversations import find_turns
from rotoscope.recorder.descent import _Gap, _Waiting, find_descent
from rotoscope.recorder.links import Linker
from rotoscope.recorder.told import Told
from rotoscope.traces.journal import CallOpened, ThreadSource

START = [system("s"), user("a")]


def parents(
    wire: Wire, who: Mapping[int, tuple[int, int | None]] | None = None, *, source: ThreadSource = "client"
) -> list[tuple[int | None, str | None]]:
    """Return who began each conversation; `who` says of calls who sent them, and who began that one."""
    records = []
    for record in wire.written().records:
        if isinstance(record, CallOpened) and who and record.call in who:
            thread, parent = who[record.call]
            record = replace(record, thread=thread, parent=parent, thread_source=source)
        records.append(record)
    run = gather(records)
    found = find_descent(run.calls, find_turns(run, Linker(run).find()), Told())
    return [(x.parent, x.evidence) for x in found.conversations]


def agent(wire: Wire, name: str, *, start: float, asks_until: float | None = None, end: float) -> None:
    """Let an agent make one call, or two with a tool in between."""
    messages = [system("s"), user(name)]
    if asks_until is not None:
        asking = assistant(calls=[tool_call(name)])
        messages = [*wire.call(messages, asking, start=start, end=start + 1), result(name, "x")]
        start = asks_until
    wire.call(messages, assistant(f"done {name}"), start=start, end=end)


def test_the_client_says_who_began_a_conversation() -> None:
    wire = Wire()
    for index in range(3):
        agent(wire, f"{index}", start=2 * index, end=2 * index + 1)

    assert parents(wire, {0: (0, None), 1: (1, 0), 2: (2, 1)}) == [(None, None), (0, "client"), (1, "client")]


def test_where_a_parent_sent_nothing_the_root_is_a_guess() -> None:
    wire = Wire()
    agent(wire, "a", start=0, end=1)
    agent(wire, "b", start=2, end=3)

    assert parents(wire, {0: (0, None), 1: (1, 7)}) == [(None, None), (0, "time")]


def test_where_a_parent_sent_nothing_one_that_waited_for_tools_is_taken() -> None:
    wire = Wire()
    grown = wire.call(START, assistant(calls=[tool_call("1")]), start=0, end=1)
    agent(wire, "b", start=2, end=3)
    wire.call([*grown, result("1", "x")], assistant("c"), start=4, end=5)

    assert parents(wire, {0: (0, None), 1: (1, 7), 2: (0, None)}) == [(None, None), (0, "tools")]


def test_of_several_conversations_of_the_parent_the_one_that_waited_for_tools_is_taken() -> None:
    wire = Wire()
    agent(wire, "a", start=0, end=1)
    other = wire.call([system("s"), user("b")], assistant(calls=[tool_call("1")]), start=0.5, end=2)
    agent(wire, "c", start=3, end=4)
    wire.call([*other, result("1", "x")], assistant("d"), start=5, end=6)

    who = {0: (0, None), 1: (0, None), 2: (1, 0), 3: (0, None)}
    assert parents(wire, who)[2] == (1, "client")


def test_of_agents_whose_parent_sent_nothing_none_began_the_others() -> None:
    wire = Wire()
    for index in range(2):
        agent(wire, f"{index}", start=0.1 * index, end=1 + index)

    assert parents(wire, {0: (0, 7), 1: (1, 7)}) == [(None, None), (0, "time")]


def test_one_that_waits_for_tools_began_what_begins_meanwhile() -> None:
    wire = Wire()
    open_call = wire.ask(START, at=0)
    wire.answer(open_call, assistant(calls=[tool_call("1")]), at=1)
    agent(wire, "b", start=2, end=3)
    wire.call([*START, assistant(calls=[tool_call("1")]), result("1", "x")], assistant("c"), start=4, end=5)

    assert parents(wire) == [(None, None), (0, "tools")]


def test_of_several_that_wait_the_last_is_taken_for_its_time() -> None:
    wire = Wire()
    messages = wire.call(START, assistant(calls=[tool_call("1")]), start=0, end=1)
    inner = [system("s"), user("b")]
    inner = wire.call(inner, assistant(calls=[tool_call("2")]), start=2, end=3)
    agent(wire, "c", start=4, end=5)
    wire.call([*inner, result("2", "x")], assistant("d"), start=6, end=7)
    wire.call([*messages, result("1", "x")], assistant("e"), start=8, end=9)

    assert parents(wire) == [(None, None), (0, "tools"), (1, "time")]


def test_one_that_ended_with_a_tool_is_not_waited_for_when_who_began_it_goes_on() -> None:
    wire = Wire()
    grown = wire.call(START, assistant(calls=[tool_call("1")]), start=0, end=1)
    wire.call([system("s"), user("b")], assistant(calls=[tool_call("final")]), start=2, end=3)
    wire.call([*grown, result("1", "x")], assistant("c"), start=4, end=5)
    agent(wire, "d", start=6, end=7)

    assert parents(wire) == [(None, None), (0, "tools"), (0, None)]


def test_what_begins_with_the_history_of_another_was_forked_from_it() -> None:
    wire = Wire()
    messages = [*wire.call(START, assistant("b"), start=0, end=1), user("c")]
    one, other = (wire.ask([*messages, user(f"{x}")], at=2) for x in range(2))
    wire.answer(one, assistant("d"), at=3)
    wire.answer(other, assistant("e"), at=3)

    assert parents(wire) == [(None, None), (0, "prefix")]


def test_other_conversations_of_a_line_are_below_its_first() -> None:
    wire = Wire()
    agent(wire, "a", start=0, end=1)
    agent(wire, "b", start=2, end=3)
    agent(wire, "side", start=4, end=5)

    assert parents(wire, {0: (0, None), 1: (1, 0), 2: (1, 0)}) == [(None, None), (0, "client"), (1, None)]


def test_an_agent_that_names_its_line_and_makes_its_prompt_anew_did_not_begin_itself() -> None:
    wire = Wire()
    for start in (0, 2, 4):  # tools were asked for and their results never sent as such
        wire.call([system("s"), user(f"round {start}")], assistant(calls=[tool_call("1")]), start=start, end=start + 1)
    line = dict.fromkeys(range(3), (0, None))

    assert parents(wire, line, source="own") == [(None, None), (0, None), (0, None)]
    assert parents(wire) == [(None, None), (0, "time"), (1, "time")]


def test_on_a_named_line_an_agent_that_ended_before_the_results_was_begun_by_it() -> None:
    wire = Wire()
    grown = wire.call(START, assistant(calls=[tool_call("1")]), start=0, end=1)
    agent(wire, "b", start=2, end=3)
    wire.call([*grown, result("1", "x")], assistant("c"), start=4, end=5)

    assert parents(wire, dict.fromkeys(range(3), (0, None)), source="own") == [(None, None), (0, "tools")]


def test_a_title_that_comes_first_is_not_the_root() -> None:
    wire = Wire()
    title = wire.ask([system("title"), user("a")], at=0)
    slow = wire.ask(START, at=0.5, tools=[{"type": "function"}])
    wire.answer(title, assistant("T"), at=1)
    wire.answer(slow, assistant(calls=[tool_call("1")]), at=2)

    assert parents(wire) == [(1, None), (None, None)]


def test_one_that_goes_on_before_an_agent_has_ended_did_not_begin_it() -> None:
    wire = Wire()
    messages = wire.call(START, assistant(calls=[tool_call("1"), tool_call("2")]), start=0, end=1)
    first = wire.call([system("s"), user("b")], assistant(calls=[tool_call("3")]), start=2, end=3)
    late = wire.ask([system("s"), user("c")], at=3.5)
    last = wire.ask([*first, result("3", "x")], at=4)
    wire.answer(late, assistant("d"), at=5)
    wire.answer(last, assistant("e"), at=6)
    wire.call([*messages, result("1", "x"), result("2", "y")], assistant("f"), start=8, end=9)

    assert parents(wire) == [(None, None), (0, "tools"), (0, "tools")]


def test_one_begins_as_many_as_it_asked_for() -> None:
    wire = Wire()
    messages = wire.call(START, assistant(calls=[tool_call("1"), tool_call("2")]), start=0, end=1)
    asking = {name: wire.ask([system("s"), user(name)], at=2) for name in "bc"}
    for index, (name, call) in enumerate(asking.items()):
        wire.answer(call, assistant(calls=[tool_call(name)]), at=3 + index / 10)
    for index in range(2):
        agent(wire, f"inner {index}", start=4 + 2 * index, end=5 + 2 * index)
    for index, name in enumerate("bc"):
        asked = [system("s"), user(name), assistant(calls=[tool_call(name)]), result(name, "x")]
        wire.call(asked, assistant(f"done {name}"), start=9 + 2 * index, end=10 + 2 * index)
    wire.call([*messages, result("1", "x"), result("2", "y")], assistant("f"), start=18, end=19)

    assert parents(wire)[1:] == [(0, "tools"), (0, "tools"), (1, "time"), (2, "time")]


def looks_at(agents: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often somebody who waits is looked at where agents follow one another whose last tools nobody answers."""
    counted = [0]
    may_wait = _Waiting._may_wait

    def counting(waiting: _Waiting, gap: _Gap, now_ms: float) -> bool:
        counted[0] += 1
        return may_wait(waiting, gap, now_ms)

    wire = Wire()
    for index in range(agents):
        asking = assistant(calls=[tool_call(str(index))])
        wire.call([system("s"), user(str(index))], asking, start=2 * index, end=2 * index + 1)
    with monkeypatch.context() as patch:
        patch.setattr(_Waiting, "_may_wait", counting)
        parents(wire, {index: (index, 0) for index in range(1, agents)})
    return counted[0]


def test_work_grows_with_the_agents_whose_tools_are_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < looks_at(80, monkeypatch) <= 5 * looks_at(20, monkeypatch)
