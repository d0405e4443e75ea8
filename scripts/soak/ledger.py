"""What the clients of a soak know of each run, and whether its trace says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rotoscope.traces.model import Call, Embedding, Trace

Outcome = Literal["whole", "cancelled", "cut", "unsure", "failed", "refused", "unrecorded", "broken"]
"""What a client knows at the end of a request.

whole: it got the answer to its end, so that the trace must hold it as that;
cancelled: it left while the server was silent in the middle of an answer, so that the trace must hold it as cancelled;
cut: it left in an answer, so that the trace must hold it as whatever it was then;
unsure: it left before it had any byte, so that the gateway may not have seen the request;
failed: the server failed, so that the trace must hold it, as an attempt of another call or alone;
refused: the server refused it, so that the trace need not hold it;
unrecorded: it was no call, or never sent whole, so that no trace may hold it;
broken: what should not be.
"""


@dataclass
class RunLedger:
    """What the clients of one run know."""

    name: str
    kind: Literal["name", "session", "all"] = "name"
    """How its requests say that they belong together; `all`: not at all, because there is no other run."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    whole: set[int] = field(default_factory=set)
    """Numbers of calls that must be there as whole."""
    maybe: set[int] = field(default_factory=set)
    """Numbers of calls that may be."""
    embedded: Counter[int] = field(default_factory=Counter)
    """Embeddings that must be there, by number."""
    maybe_embedded: int = 0
    open: set[int] = field(default_factory=set)
    """Numbers of requests whose end their clients do not know yet."""
    left: set[int] = field(default_factory=set)
    """Numbers of requests whose clients left before the connection was over, so that the gateway may not know yet."""

    def note(self, outcome: Outcome, number: int, *, is_embedding: bool) -> None:
        """Note how a request ended."""
        if is_embedding:
            self.outcomes["unrecorded"] += 1
            self.embedded[number] += outcome == "whole"
            self.maybe_embedded += outcome not in ("whole", "unrecorded")
            return
        self.outcomes[outcome] += 1
        if outcome == "whole":
            self.whole.add(number)
        elif outcome in ("cut", "unsure", "cancelled"):
            self.maybe.add(number)

    @property
    def certain(self) -> int:
        """How many requests the trace must hold."""
        return sum(self.outcomes[x] for x in ("whole", "cancelled", "cut", "failed"))

    @property
    def possible(self) -> int:
        """How many it may hold at most."""
        return self.certain + self.outcomes["unsure"] + self.outcomes["refused"]

    def likeness(self, trace: Trace) -> int:
        """Return how much a trace looks like one of this run, by the numbers that it holds."""
        numbers = set(numbers_of([trace]))
        embedded = {event.prompt_tokens for event in trace.events if isinstance(event, Embedding)}
        alike = len(numbers & self.whole) + len(embedded & set(self.embedded))
        return alike - 10 * len(numbers - self.whole - self.maybe)

    def at_a_kill(self) -> RunLedger:
        """Return what is known when the gateway is killed now: what was open or just left may be there or not."""
        killed = RunLedger(
            self.name, self.kind, Counter(self.outcomes), self.whole - self.left, self.maybe | self.left | self.open
        )
        killed.embedded = Counter(self.embedded)
        killed.maybe_embedded = self.maybe_embedded + len(self.open)
        left = sum(self.outcomes[x] for x in ("cancelled", "cut")) + len(self.whole & self.left)
        killed.outcomes["whole"] = len(killed.whole)
        killed.outcomes["cancelled"] = killed.outcomes["cut"] = 0
        killed.outcomes["unsure"] += left + len(self.open)
        return killed

    @classmethod
    def of_all(cls, ledgers: Sequence[RunLedger]) -> RunLedger:
        """Return what is known of several runs whose traces cannot be told apart, as of one."""
        pooled = cls(" and ".join(ledger.name for ledger in ledgers))
        for ledger in ledgers:
            pooled.outcomes += ledger.outcomes
            pooled.whole |= ledger.whole
            pooled.maybe |= ledger.maybe
            pooled.embedded += ledger.embedded
            pooled.maybe_embedded += ledger.maybe_embedded
        return pooled

    def problems(self, traces: list[Trace], *, lost: int = 0) -> Iterator[str]:
        """Yield what traces say otherwise; after a kill, so many calls may be lost in flight."""
        calls = [call for trace in traces for call in trace.calls()]
        numbers = Counter(numbers_of(traces))
        if missing := self.whole - set(numbers):
            yield f"{self.name}: {len(missing)} whole calls are in no trace: {sorted(missing)[:5]}"
        if twice := [number for number, times in numbers.items() if times > 1]:
            yield f"{self.name}: calls are in the traces twice: {sorted(twice)[:5]}"
        if odd := set(numbers) - self.whole - self.maybe:
            yield f"{self.name}: calls are whole in a trace but not for their clients: {sorted(odd)[:5]}"
        attempts = sum(call.attempts or 1 for call in calls)
        if not self.certain <= attempts <= self.possible + lost:
            yield f"{self.name}: {attempts} requests are in the traces, expected {self.certain} to {self.possible}"
        cancelled = sum(call.finish_reason == "cancelled" for call in calls)
        if cancelled < self.outcomes["cancelled"]:
            yield f"{self.name}: {cancelled} calls are marked as cancelled, expected {self.outcomes['cancelled']}"
        found = sum(call.finish_reason == "lost" for call in calls)
        if found > lost:
            yield f"{self.name}: {found} calls are lost, at most {lost} can be"
        yield from self._embedding_problems(traces)

    def _embedding_problems(self, traces: list[Trace]) -> Iterator[str]:
        embedded = Counter(x.prompt_tokens for trace in traces for x in trace.events if isinstance(x, Embedding))
        if missing := self.embedded - embedded:
            yield f"{self.name}: {missing.total()} embeddings are in no trace"
        if (more := embedded - self.embedded).total() > self.maybe_embedded:
            yield f"{self.name}: {more.total()} embeddings are in the traces too often"


def numbers_of(traces: Iterable[Trace]) -> Iterator[int]:
    """Yield the numbers of the calls that traces hold as whole."""
    for trace in traces:
        for call in trace.calls():
            if call.finish_reason == "stop":
                yield call.completion_tokens


def attempts_in(trace: Trace) -> int:
    """Return how many requests a trace holds."""
    return sum(event.attempts or 1 for event in trace.events if isinstance(event, Call))
