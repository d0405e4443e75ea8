from __future__ import annotations

from chat_wire import Wire, assistant, result, system, tool_call, user

from rotoscope.recorder.reading import leading_messages
from rotoscope.traces.journal import CallOpened


def opened(wire: Wire) -> list[CallOpened]:
    return [record for record in wire.written().records if isinstance(record, CallOpened)]


def test_leading_messages_are_those_of_the_system_and_of_the_developer() -> None:
    assert leading_messages([system("a"), {"role": "developer", "content": "b"}, user("c"), system("d")]) == 2


def test_tool_results_name_the_call_that_asked_for_them() -> None:
    wire = Wire()
    first = wire.call([user("go")], assistant(calls=[tool_call("a1")]))
    other = wire.call([user("else")], assistant(calls=[tool_call("b1")]))
    wire.call([*first, result("a1", "x")], assistant("done"))
    wire.call([*other, result("b1", "y")], assistant("done"))
    wire.call([user("new"), result("zz", "y")], assistant("done"))

    assert [call.answers for call in opened(wire)] == [None, None, 0, 1, None]


def test_results_in_a_body_that_goes_on_from_another_name_their_call_too() -> None:
    wire = Wire()
    messages = wire.call([user("go")], assistant(calls=[tool_call("a1")]))
    messages = wire.call([*messages, result("a1", "x")], assistant(calls=[tool_call("a2")]))
    wire.call([*messages, result("a2", "x")], assistant("done"))

    assert [call.answers for call in opened(wire)] == [None, 0, 1]


def test_an_answer_behind_results_takes_their_call_away() -> None:
    wire = Wire()
    first = wire.call([user("go")], assistant(calls=[tool_call("a1")]))
    wire.call([*first, result("a1", "x"), assistant("fine"), user("more")], assistant("done"))

    assert opened(wire)[1].answers is None
