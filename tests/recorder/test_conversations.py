from __future__ import annotations

from chat_wire import Wire, assistant, result, system, tool_call, user

from rotoscope.recorder.calls import gather
from rotoscope.recorder.conversations import Turn, find_turns
from rotoscope.recorder.links import Linker

START = [system("s"), user("a")]
ASKING = assistant(calls=[tool_call("1"), tool_call("2")])


def turns(wire: Wire) -> list[Turn]:
    run = gather(wire.written().records)
    return find_turns(run, Linker(run).find())


def numbers(wire: Wire) -> list[int]:
    return [turn.conversation for turn in turns(wire)]


def test_a_prompt_that_goes_on_behind_the_last_answer_belongs_to_its_conversation() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"))
    wire.call([*grown, user("c")], assistant("d"))
    first, second = turns(wire)

    assert (first.conversation, first.kept, first.before) == (0, 0, None)
    assert (second.conversation, second.kept, second.before, len(second.messages)) == (0, 3, 0, 4)


def test_a_prompt_that_goes_on_from_the_middle_cuts_the_list() -> None:
    wire = Wire()
    grown = [*wire.call(START, assistant("b")), user("c")]
    wire.call([*wire.call(grown, assistant("d")), user("e")], assistant("f"))
    wire.call([*grown[:3], user("other")], assistant("g"))

    assert [(turn.conversation, turn.kept) for turn in turns(wire)] == [(0, 0), (0, 3), (0, 5), (0, 3)]


def test_what_left_a_list_that_is_taken_up_again_is_a_conversation_of_its_own() -> None:
    wire = Wire()
    first = [*wire.call(START, assistant("b")), user("c")]
    second = [*wire.call(first, assistant("d")), user("e")]
    wire.call([*START, assistant("b"), user("other")], assistant("g"))
    wire.call(second, assistant("f"))

    assert [(turn.conversation, turn.kept) for turn in turns(wire)] == [(0, 0), (0, 3), (1, 0), (0, 5)]


def test_the_same_prompt_again_brings_nothing_in() -> None:
    wire = Wire()
    wire.call(START, assistant("b"))
    wire.call(START, assistant("c"))

    assert turns(wire)[1].kept == 2


def test_the_first_message_of_the_user_alone_makes_a_conversation() -> None:
    wire = Wire()
    wire.call(START[1:], assistant("b"))
    wire.call([START[1], user("other")], assistant("c"))

    assert numbers(wire) == [0, 0]


def test_the_system_prompt_alone_makes_no_conversation() -> None:
    wire = Wire()
    wire.call(START, assistant("b"))
    wire.call([START[0], user("other")], assistant("c"))

    assert numbers(wire) == [0, 1]


def test_a_conversation_whose_call_is_in_flight_is_not_gone_on_with() -> None:
    wire = Wire()
    wire.ask(START, at=0)
    wire.ask(START, at=1)

    assert numbers(wire) == [0, 1]


def test_of_two_conversations_the_one_that_ends_where_the_prompt_goes_on_is_taken() -> None:
    wire = Wire()
    one, other = wire.ask(START, at=0), wire.ask(START, at=0)
    wire.answer(one, assistant("b"), at=1)
    wire.answer(other, assistant("c"), at=1)
    wire.call([*START, assistant("b"), user("d")], assistant("e"), start=2)
    wire.call([*START, assistant("c"), user("d")], assistant("e"), start=3)

    assert numbers(wire) == [0, 1, 0, 1]


def test_choices_of_one_request_are_one_turn() -> None:
    wire = Wire()
    wire.answer(wire.ask(START, n=2), assistant("b"), assistant("c"))
    wire.call([*START, assistant("c"), user("d")], assistant("e"))

    assert [(turn.conversation, turn.kept) for turn in turns(wire)] == [(0, 0), (0, 2), (0, 3)]


def test_results_behind_the_last_answer_are_counted() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING)
    wire.call([*grown, result("1", "x"), result("2", "y"), user("and?")], assistant("b"))

    assert [turn.carries_tools for turn in turns(wire)] == [0, 2]


def test_results_count_although_the_client_wrote_the_answer_anew() -> None:
    wire = Wire()
    wire.call(START, assistant("I look.", calls=[tool_call("1")]))
    wire.call([*START, assistant(calls=[tool_call("1")]), result("1", "x")], assistant("b"))

    assert [turn.carries_tools for turn in turns(wire)] == [0, 1]


def test_results_of_an_older_answer_do_not_count_again() -> None:
    wire = Wire()
    grown = [*wire.call(START, ASKING), result("1", "x")]
    wire.call([*wire.call(grown, assistant("b")), user("c")], assistant("d"))

    assert [turn.carries_tools for turn in turns(wire)] == [0, 1, 0]


def test_a_conversation_may_change_its_model_and_its_tools() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"))
    wire.call([*grown, user("c")], assistant("d"), model="other", tools=[{"type": "function"}])

    assert numbers(wire) == [0, 0]
