from __future__ import annotations

from dataclasses import replace

from chat_wire import Message, Wire, assistant, result, system, tool_call, user

from rotoscope.recorder.calls import gather
from rotoscope.recorder.origins import Origin, OriginFinder
from rotoscope.traces.journal import CallOpened, JournalRecord

START = [system("s"), user("a")]
LONG = "an answer of some length"


def asking(call_id: str, text: str = "") -> Message:
    return assistant(text, calls=[tool_call(call_id)])


def origins(wire: Wire, **named: dict[int, int]) -> list[Origin]:
    """Return the origins of calls; `named` says what else their requests tell, by field and call."""
    records: list[JournalRecord] = []
    for record in wire.written().records:
        if isinstance(record, CallOpened):
            fields = {name: values[record.call] for name, values in named.items() if record.call in values}
            record = replace(record, **fields)  # type: ignore[arg-type]
        records.append(record)
    return OriginFinder(gather(records)).origins()


def test_a_prompt_that_holds_a_whole_stream_goes_on_from_it() -> None:
    wire = Wire()
    wire.call([*wire.call(START, assistant("b")), user("c")], assistant("d"))

    assert origins(wire) == [Origin("none"), Origin("prefix", (0,))]


def test_all_calls_with_the_same_stream_are_candidates() -> None:
    wire = Wire()
    for _ in range(2):
        grown = wire.call(START, assistant("b"))
    wire.call([*grown, user("c")], assistant("d"))

    assert origins(wire)[2] == Origin("prefix", (0, 1))


def test_an_answer_counts_when_it_has_ended() -> None:
    wire = Wire()
    slow = wire.ask(START, at=0)
    wire.call([*START, assistant(LONG), user("c")], assistant("d"), start=1, end=2)
    wire.answer(slow, assistant(LONG), at=3)
    wire.call([*START, assistant(LONG), user("e")], assistant("f"), start=4, end=5)

    assert origins(wire)[2] == Origin("prefix", (0,))


def test_a_whole_prompt_with_another_answer_goes_on_from_its_call() -> None:
    wire = Wire()
    wire.call(START, assistant("b"))
    wire.call([*START, assistant("changed"), user("c")], assistant("d"))

    assert origins(wire)[1] == Origin("prefix", (0,))


def test_the_last_answer_tells_although_what_stands_before_it_changed() -> None:
    wire = Wire()
    wire.call(START, assistant(LONG))
    wire.call([system("it is noon"), user("a"), assistant(LONG), user("c")], assistant("d"))

    assert origins(wire)[1] == Origin("answer", (0,))


def test_a_short_answer_alone_tells_nothing() -> None:
    wire = Wire()
    wire.call(START, assistant("ok"))
    wire.call([system("it is noon"), user("a"), assistant("ok"), user("c")], assistant("d"))

    assert origins(wire)[1] == Origin("none")


def test_the_same_prompt_again_is_a_repetition() -> None:
    wire = Wire()
    wire.ask(START)
    wire.ask(START)

    assert origins(wire)[1] == Origin("again", (0,))


def test_a_prompt_that_is_in_flight_comes_again_from_where_both_came() -> None:
    wire = Wire()
    grown = [*wire.call(START, assistant("b")), user("c")]
    wire.ask(grown)
    wire.ask(grown)

    assert origins(wire)[2] == Origin("again", (1,), beneath=(0,))


def test_a_prompt_that_parts_behind_an_older_answer_goes_back_to_it() -> None:
    wire = Wire()
    grown = [*wire.call(START, asking("1")), result("1", "x")]
    wire.call([*wire.call(grown, asking("2", LONG)), result("2", "y")], assistant("d"))
    wire.call([*grown, assistant(LONG + "."), user("other")], assistant("e"))

    assert origins(wire)[3] == Origin("prefix", (1,))


def test_the_instructions_alone_tell_nothing() -> None:
    wire = Wire()
    wire.call(START, assistant("b"))
    wire.call([START[0], user("other")], assistant("c"))

    assert origins(wire)[1] == Origin("none")


def test_examples_at_the_start_that_no_call_answered_are_a_part() -> None:
    wire = Wire()
    shots = [system("s"), user("example"), assistant(LONG)]
    wire.call([*shots, user("a")], assistant("b"))
    wire.call([*shots, user("c")], assistant("d"))

    assert origins(wire)[1] == Origin("part", (0,))


def test_results_name_the_call_that_asked_for_them() -> None:
    wire = Wire()
    for call_id in ("1", "2"):
        grown = wire.call(START, asking(call_id, LONG))
    wire.call([*grown, result("1", "x")], assistant("d"))

    assert origins(wire)[2] == Origin("tools", (0,))


def test_the_same_results_again_are_a_repetition_of_what_has_ended() -> None:
    wire = Wire()
    grown = [*wire.call(START, asking("1", LONG), start=0, end=1), result("1", "x")]
    wire.ask(grown, at=2).cancelled(at_s=103)
    wire.ask(grown, at=4)

    assert origins(wire)[1:] == [Origin("tools", (0,)), Origin("again", (1,))]


def test_the_same_results_by_other_ids_are_of_another_agent() -> None:
    wire = Wire()
    both = [wire.call(START, asking(call_id, LONG), start=at, end=at + 1) for at, call_id in enumerate(("1", "2"))]
    for at, (grown, call_id) in enumerate(zip(both, ("1", "2"), strict=True), start=2):
        wire.call([*grown, result(call_id, "x")], assistant("d"), start=at, end=at + 0.5)

    assert origins(wire)[2:] == [Origin("tools", (0,)), Origin("tools", (1,))]


def test_an_id_that_two_answers_gave_out_names_none() -> None:
    wire = Wire()
    for _ in range(2):
        grown = wire.call(START, asking("1"))
    wire.call([*grown, result("1", "x")], assistant("d"))

    assert origins(wire)[2] == Origin("prefix", (0, 1))


def test_an_id_is_not_believed_where_the_prompt_holds_more_of_another_stream() -> None:
    wire = Wire()
    grown = wire.call(START, assistant(LONG))
    wire.call([system("t"), user("z")], assistant("else"))
    wire.call([*grown, user("c")], assistant("d"))

    assert origins(wire, answers={2: 1})[2] == Origin("prefix", (0,))


def test_a_response_that_is_named_comes_first() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"))
    wire.call(START, assistant("b"))
    wire.call([*grown, user("c")], assistant("d"))

    assert origins(wire, previous={2: 1})[2] == Origin("response", (1,))


def test_lines_that_clients_name_have_nothing_to_do_with_one_another() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"))
    wire.call([*grown, user("c")], assistant("d"))

    assert origins(wire, thread={0: 0, 1: 1})[1] == Origin("none")


def test_choices_come_from_where_their_request_comes_from() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"))
    wire.answer(wire.ask([*grown, user("c")], n=2), assistant("d"), assistant("e"))

    assert origins(wire)[1:] == [Origin("prefix", (0,))] * 2


def test_ids_of_tools_say_nothing_where_the_prompt_shows_nothing_of_the_call() -> None:
    wire = Wire()
    wire.call(START, asking("call_0"))
    wire.call([system("s"), user("resumed"), asking("call_0", LONG), result("call_0", "r")], assistant("d"))

    assert origins(wire)[1].kind not in ("tools", "prefix")


def test_ids_of_tools_say_it_where_the_instructions_changed_and_the_answer_was_written_anew() -> None:
    wire = Wire()
    wire.call([system("s"), user(LONG)], asking("x1", "first words"))
    wire.call([system("t"), user(LONG), asking("x1", "other words"), result("x1", "r")], assistant("d"))

    assert origins(wire)[1] == Origin("tools", (0,))


def test_results_that_come_behind_a_later_answer_go_on_from_that() -> None:
    wire = Wire()
    both = assistant("two", calls=[tool_call("x1"), tool_call("x2")])
    grown = wire.call([*wire.call(START, both), result("x1", "r")], assistant("one is there"))
    wire.call([*grown, result("x2", "r")], assistant("d"))

    assert origins(wire)[2] == Origin("prefix", (1,))
