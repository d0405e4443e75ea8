"""A run of agents that do what agents do, replayed with the durations that its calls had: every call starts when it did."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from chat_wire import Message, Wire, assistant, result, system, tool_call, usage, user
from hypothesis import example, given, settings
from hypothesis import strategies as st
from recorded_times import starts_ms

from rotoscope.recorder import Exchange
from rotoscope.traces import Trace
from rotoscope.traces.reader import loads
from rotoscope.traces.writer import dumps

Then = Callable[[float], None]
TICK_S = 0.25
MOST_DEPTH = 2
MOST_TURNS = 4


@dataclass
class Agents:
    """Agents on one wire: they run tools side by side, some of which are agents again, and try again what failed."""

    seed: int
    wire: Wire = field(default_factory=Wire)
    due: list[tuple[float, int, Then]] = field(default_factory=list)
    planned: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def play(self, count: int) -> Trace:
        """Let some agents run to their ends."""
        for number in range(count):
            self.at(
                0.0 if number == 0 else self.ticks(8), partial(self.begin, name=f"a{number}", depth=0, done=_nothing)
            )
        while self.due:
            now, _, then = heapq.heappop(self.due)
            then(now)
        return self.wire.close()

    def at(self, when: float, then: Then) -> None:
        self.planned += 1
        heapq.heappush(self.due, (when, self.planned, then))

    def ticks(self, most: int) -> float:
        return self.random.randrange(most) * TICK_S

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def begin(self, now: float, name: str, depth: int, done: Then) -> None:
        task = "the same" if self.chance(0.3) else name
        self.ask(now, [system("s" * 300), user(task)], depth, done)

    def ask(self, now: float, messages: list[Message], depth: int, done: Then) -> None:
        fields = {"n": 2} if self.chance(0.15) else {}
        exchange, end = self.wire.ask(messages, at=now, **fields), now + self.ticks(20)
        if self.chance(0.1):
            self.at(end, lambda now: self.refuse(now, exchange, lambda then: self.ask(then, messages, depth, done)))
        else:
            self.at(end, lambda now: self.answer(now, exchange, messages, depth, done, is_twofold=bool(fields)))

    def refuse(self, now: float, exchange: Exchange, again: Then) -> None:
        if self.chance(0.5):
            exchange.response(429, at_s=self.wire.now_s, content_type="application/json")
        exchange.failed(at_s=100.0 + now)
        self.at(now + self.ticks(4), again)

    def answer(
        self, now: float, exchange: Exchange, messages: list[Message], depth: int, done: Then, *, is_twofold: bool
    ) -> None:
        calls = [tool_call(f"{self.planned}.{x}") for x in range(self.random.randrange(3))]
        answer = assistant(f"said {self.planned}", calls=calls)
        others = [assistant("other")] if is_twofold else []
        choices = [*others, answer] if self.chance(0.5) else [answer, *others]
        self.wire.answer(exchange, *choices, counts=usage(sum(map(_size, messages)), 7), at=now)
        if len(messages) > 3 * MOST_TURNS or self.chance(0.3):
            self.at(now, done)
            return
        if self.chance(0.1):
            calls = [tool_call("nobody asked for this")]
        results = [result(call["id"], "r") for call in calls] or [user("more")]
        then = _last_of(len(results), lambda now: self.at(now + self.ticks(4), go_on))

        def go_on(now: float) -> None:
            self.ask(now, [*messages, answer | ({"tool_calls": calls} if calls else {}), *results], depth, done)

        for index in range(len(results)):
            if calls and depth < MOST_DEPTH and self.chance(0.3):
                name = f"{self.planned}.{index}"
                self.at(now + self.ticks(4), partial(self.begin, name=name, depth=depth + 1, done=then))
            else:
                self.at(now + self.ticks(16), then)


def _nothing(_: float) -> None:
    pass


def _size(message: Message) -> int:
    return len(str(message))


def _last_of(count: int, then: Then) -> Then:
    left = [count]

    def one(now: float) -> None:
        left[0] -= 1
        if not left[0]:
            then(now)

    return one


@settings(max_examples=40)
@example(seed=2627, count=1)
@given(seed=st.integers(0, 100_000), count=st.integers(1, 3))
def test_no_time_of_a_run_is_lost_or_counted_twice(seed: int, count: int) -> None:
    trace = Agents(seed).play(count)

    assert loads(dumps(trace)) == trace
    starts = starts_ms(trace)
    assert {x.call: x.at_ms for x in trace.calls() if abs(starts[x.call] - (x.at_ms or 0.0)) > 1e-3} == {}
