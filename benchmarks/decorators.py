"""Claim: a decorated function costs under 0.3 us off, under 5 us while it is recorded, and with OpenTelemetry's SDK at
most 1.3 times a bare span.

What a call costs is the median of several rounds, in processor time, less that of the same function undecorated. Off is
with nothing that records and OpenTelemetry not loaded; on is inside an agent of a run whose recording takes what it is
told and does no more. The bare span is `start_as_current_span` with the same name and attributes, of the same provider,
which hands its spans to an exporter in batches that drops them.

Run: python benchmarks/decorators.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from rotoscope import trace_agent, trace_tool
from rotoscope.recorder.marks import Mark
from rotoscope.sdk import recordings

ROUNDS = 15
CALLS = 20_000
OFF_US, ON_US, MOST_RATIO = 0.3, 5.0, 1.3


class Taking:
    """A run, and a recording, that takes what it is told."""

    name = ""

    def tell(self, mark: Mark) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def environment(self) -> dict[str, str]:
        return {}

    def begin_run(self) -> Taking:
        return self

    def join_run(self) -> None:
        return None

    def flush(self, timeout_s: float) -> None:
        """Do nothing."""


def plain(number: int) -> int:
    return number


async def coroutine(number: int) -> int:
    return number


def generator(most: int) -> Iterator[int]:
    yield from range(most)


async def async_generator(most: int) -> AsyncIterator[int]:
    for number in range(most):
        yield number


def calls(function: Callable[[int], Any]) -> float:
    """Return the processor time of a call, in microseconds."""
    numbers = range(CALLS)
    began_s = time.process_time()
    for number in numbers:
        function(number)
    return (time.process_time() - began_s) / CALLS * 1e6


def awaits(function: Callable[[int], Any]) -> float:
    async def await_all() -> float:
        numbers = range(CALLS)
        began_s = time.process_time()
        for number in numbers:
            await function(number)
        return (time.process_time() - began_s) / CALLS * 1e6

    return asyncio.run(await_all())


def steps(function: Callable[[int], Any]) -> float:
    began_s = time.process_time()
    for _ in function(CALLS):
        pass
    return (time.process_time() - began_s) / CALLS * 1e6


def async_steps(function: Callable[[int], Any]) -> float:
    async def take_all() -> float:
        began_s = time.process_time()
        async for _ in function(CALLS):
            pass
        return (time.process_time() - began_s) / CALLS * 1e6

    return asyncio.run(take_all())


KINDS: list[tuple[str, Callable[[int], Any], Callable[[Callable[[int], Any]], float]]] = [
    ("call of a function", plain, calls),
    ("coroutine", coroutine, awaits),
    ("step of a generator", generator, steps),
    ("step of an async generator", async_generator, async_steps),
]


def both(measure: Callable[[Any], float], one: Any, other: Any, rounds: int) -> tuple[float, float]:
    """Return the medians of two, measured in turns."""
    measure(one), measure(other)
    pairs = [(measure(one), measure(other)) for _ in range(rounds)]
    return statistics.median(x for x, _ in pairs), statistics.median(y for _, y in pairs)


def added(state: str, rounds: int) -> float:
    """Print what decoration adds to each kind of function; return what it adds to the call of one."""
    found = []
    for what, function, measure in KINDS:
        bare_us, decorated_us = both(measure, function, trace_tool(function), rounds)
        found.append(decorated_us - bare_us)
        print(
            f"{state:35} {what:27} {bare_us:6.3f} us, decorated {decorated_us:6.3f} us: {found[-1]:+.3f} us", flush=True
        )
    return found[0]


def inside_a_run(measure: Callable[[], float]) -> float:
    """Measure inside of an agent that is recorded."""
    recordings.record_by(Taking())
    result = trace_agent(name="agent")(measure)()
    recordings.record_by(None)
    return result


def beside_bare_spans(rounds: int) -> float:
    """Print what a decorated call and a bare span cost; return how many times as much the first does."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Dropping(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    tracer = provider.get_tracer("bare")
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "plain",
        "gen_ai.tool.type": "function",
    }

    def bare(number: int) -> int:
        with tracer.start_as_current_span("execute_tool plain", attributes=attributes):
            return number

    bare_us, decorated_us = both(calls, bare, trace_tool(plain), rounds)
    print(f"bare span {bare_us:.2f} us, decorated function {decorated_us:.2f} us: {decorated_us / bare_us:.2f} times")
    return decorated_us / bare_us


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    off_us = added("off", rounds)
    on_us = inside_a_run(lambda: added("recorded", rounds))
    import opentelemetry.trace

    assert opentelemetry.trace
    off_us = max(off_us, added("off, with opentelemetry loaded", rounds))
    on_us = max(on_us, inside_a_run(lambda: added("recorded, with opentelemetry loaded", rounds)))
    ratio = beside_bare_spans(rounds)
    print(f"off {off_us:.2f} us (limit {OFF_US} us), recorded {on_us:.2f} us (limit {ON_US} us)", end=", ")
    print(f"with a provider {ratio:.2f} times a bare span (limit {MOST_RATIO} times)")
    return 0 if off_us < OFF_US and on_us < ON_US and ratio <= MOST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
