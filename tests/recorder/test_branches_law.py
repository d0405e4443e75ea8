"""Whatever agents do at the same time, and whatever they say of who they are, the trace can be replayed in order."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from chat_wire import Message, Wire, assistant, result, system, tool, tool_call, user
from hypothesis import given, settings
from hypothesis import strategies as st

from rotoscope.recorder import Exchange
from rotoscope.recorder.building import build_trace
from rotoscope.replayer.schedule import Schedule, plan_session
from rotoscope.traces import Trace
from rotoscope.traces.journal import CallOpened, Journal
from rotoscope.traces.validation import validate


class Chaos:
    """Agents that call, fork, go back, hang up and repeat themselves at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.wire = Wire(key=b"k" * 32)
        self.lists: list[list[Message]] = [[system("s"), user("task")]]
        self.in_flight: list[tuple[Exchange, int, list[Message]]] = []
        self.at = 0.0

    def play(self, steps: int) -> Journal:
        for _ in range(steps):
            self.at += self.random.choice([0.0, 0.5, 1.0])
            self.wire.now_s = 100.0 + self.at
            self.random.choice([self.ask, self.ask, self.end, self.end, self.begin, self.cut])()
        return self.wire.written()

    def ask(self) -> None:
        who = self.random.randrange(len(self.lists))
        kinds: list[dict[str, Any]] = [{}, {"tools": [tool("read")]}, {"n": 2}, {"model": "other"}]
        fields = self.random.choice(kinds)
        messages = list(self.lists[who])
        self.in_flight.append((self.wire.ask(messages, **fields), who, messages))

    def end(self) -> None:
        if not self.in_flight:
            return
        exchange, who, messages = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        how = self.random.randrange(8)
        if how == 0:
            exchange.cancelled(at_s=self.wire.now_s)
        elif how == 1:
            exchange.failed(at_s=self.wire.now_s)
        elif how > 2:
            call_id = self.random.choice(["1", "2", "3"])
            calls = [tool_call(call_id)] if self.random.random() < 0.5 else []
            answer = assistant(self.random.choice(["yes, I do what was asked", "no"]), calls=calls)
            self.wire.answer(exchange, *[answer] * (2 if exchange.recorded and len(messages) % 2 else 1))
            carried = [result(call_id, "x")] if calls else [user(self.random.choice(["go on", "and?"]))]
            self.lists[who] = [*messages, answer, *carried]

    def begin(self) -> None:
        messages = self.random.choice(self.lists) if self.random.random() < 0.5 else [system("s"), user("part")]
        self.lists.append(list(messages))

    def cut(self) -> None:
        who = self.random.randrange(len(self.lists))
        self.lists[who] = [*self.lists[who][: self.random.randint(2, 4)], user("other")]


def with_ids(journal: Journal, random: Random) -> Journal:
    """Let some requests say who they are, and of whom, true or not."""
    records = []
    for record in journal.records:
        if isinstance(record, CallOpened) and random.random() < 0.7:
            parent = random.choice([None, 0, 1, 2, 3])
            record = replace(record, thread=random.randrange(4), parent=parent, thread_source="client")
            if record.call and random.random() < 0.3:
                record = replace(record, previous=random.randrange(record.call))
        records.append(record)
    return Journal(journal.header, tuple(records))


def built(seed: int, steps: int, *, has_ids: bool) -> Trace | None:
    random = Random(seed)
    journal = Chaos(random).play(steps)
    return build_trace(with_ids(journal, random) if has_ids else journal).trace


def behind(schedule: Schedule) -> dict[int, set[int]]:
    """Return for each call those that must have ended before it starts."""
    seen: list[set[int]] = []
    found: dict[int, set[int]] = {}
    for step in schedule.steps:
        before = {x for index in step.after for x in seen[index]}
        before |= {call for index in step.after if (call := schedule.steps[index].call) is not None}
        seen.append(before)
        if step.call is not None:
            found[step.call] = before
    return found


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40), has_ids=st.booleans())
def test_a_trace_is_valid_and_its_replay_keeps_what_ran_together_together(seed: int, steps: int, has_ids: bool) -> None:
    trace = built(seed, steps, has_ids=has_ids)
    if trace is None:
        return
    validate(trace)
    calls = {call.call: call for call in trace.calls()}
    for number, before in behind(plan_session(trace)).items():
        for other in map(calls.get, before):
            assert other is not None
            assert other.call < number
            assert other.at_ms is not None
            if other.duration_ms is not None and not is_one_request(other.request, calls[number].request):
                assert other.at_ms + other.duration_ms <= (calls[number].at_ms or 0.0) + 0.002


def is_one_request(a: int | None, b: int | None) -> bool:
    return a is not None and a == b


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), kept=st.floats(0, 1))
def test_so_is_that_of_a_recording_that_was_cut_off(seed: int, kept: float) -> None:
    random = Random(seed)
    journal = with_ids(Chaos(random).play(30), random)
    trace = build_trace(Journal(journal.header, journal.records[: round(kept * len(journal.records))])).trace
    if trace is not None:
        validate(trace)
        plan_session(trace)
