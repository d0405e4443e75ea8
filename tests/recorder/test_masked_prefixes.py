from __future__ import annotations

from chat_wire import Wire, assistant, system, usage, user

from rotoscope.recorder.calls import gather
from rotoscope.recorder.masked_prefixes import MaskedPrefixes
from rotoscope.recorder.prefixes import PrefixFinder
from rotoscope.traces.model import Prefix

HISTORY = [user("a " * 400), assistant("b " * 400)]


def masked(wire: Wire) -> dict[int, Prefix]:
    return MaskedPrefixes(PrefixFinder(gather(wire.written().records), is_named=False)).all()


def ask(wire: Wire, *messages: dict[str, object], prompt: int, at: float) -> None:
    wire.call(list(messages), assistant("yes"), counts=usage(prompt, 2), start=at, end=at + 1)


def test_a_date_that_changes_ends_what_is_shared_and_is_looked_through() -> None:
    wire = Wire()
    ask(wire, system("It is 2026-11-30."), *HISTORY, user("go"), prompt=900, at=0)
    ask(wire, system("It is 2026-12-01."), *HISTORY, user("go"), prompt=900, at=2)
    ask(wire, system("It is 2026-12-02."), *HISTORY, user("go"), assistant("yes"), user("on"), prompt=910, at=4)
    found = masked(wire)
    trace = wire.close()

    assert all(call.prefix.tokens <= 50 for call in trace.calls())
    assert found[1] == Prefix(0, 900, "estimate")
    assert (found[2].of, found[2].source) == (0, "estimate")
    assert 895 < found[2].tokens <= 902
    assert {call.call: call.masked for call in trace.calls() if call.masked} == found


def test_instructions_that_nobody_sent_before_are_shared_without_the_date_in_them() -> None:
    wire = Wire()
    long = "Be kind. " * 100
    ask(wire, system(f"It is 2026-11-30. {long}"), user("left"), prompt=300, at=0)
    ask(wire, system(f"It is 2026-12-01. {long}"), user("right"), prompt=300, at=2)
    ask(wire, system(f"It is 2026-12-01. {long}"), user("ahead"), prompt=300, at=4)
    found = masked(wire)
    *_, second, third = wire.close().calls()

    assert list(found) == [1]
    assert (found[1].of, found[1].tokens) == (0, second.prefix.tokens)
    assert second.prefix.of == third.prefix.of != 0
    assert 250 < found[1].tokens < 300


def test_where_nothing_changes_by_itself_nothing_is_told() -> None:
    wire = Wire()
    ask(wire, system("It is 2026-11-30."), *HISTORY, user("go"), prompt=900, at=0)
    ask(wire, system("It is 2026-11-30."), *HISTORY, user("go"), assistant("yes"), user("on"), prompt=910, at=2)

    assert masked(wire) == {}


def test_an_output_is_shared_only_by_calls_that_came_after_it() -> None:
    wire = Wire()
    first = wire.ask([system("It is 2026-11-30."), user("go")], at=0)
    ask(wire, system("It is 2026-12-01."), user("go"), assistant("yes"), user("on"), prompt=60, at=1)
    wire.answer(first, assistant("yes"), counts=usage(40, 2), at=3)

    assert masked(wire)[1].tokens < 50
