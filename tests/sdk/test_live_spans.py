from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode
from sdk_doubles import Spans, id_of, program, provided_by

from rotoscope import __version__, parallel, trace_agent, trace_tool
from rotoscope.sdk.conventions import SCHEMA_URL
from rotoscope.sdk.spans import counts


@trace_tool
def add(a: int, b: int) -> int:
    return a + b


@trace_agent(name="worker")
def worker(number: int) -> int:
    return add(number, 1)


@trace_agent(name="supervisor")
def supervisor() -> list[int]:
    with parallel("research") as fan:

        def one(number: int) -> int:
            with fan.branch("helper"):
                return worker(number)

        with ThreadPoolExecutor() as pool:
            return list(pool.map(one, range(3)))


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_agents_and_tools_are_called_as_the_conventions_say(spans: Spans) -> None:
    worker(1)

    tool, agent = spans.ended
    assert (tool.name, agent.name) == ("execute_tool add", "invoke_agent worker")
    assert attributes_of(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
    }
    assert attributes_of(agent) == {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "worker"}
    assert {tool.kind, agent.kind} == {SpanKind.INTERNAL}
    assert tool.status.status_code is StatusCode.UNSET
    scope = tool.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.version, scope.schema_url) == ("rotoscope", __version__, SCHEMA_URL)
    assert SCHEMA_URL == "https://opentelemetry.io/schemas/gen-ai/0.1.0"


def test_fan_out_holds_its_branches_whatever_thread_they_run_in(spans: Spans) -> None:
    supervisor()

    assert spans.parent_of("parallel research") == "invoke_agent supervisor"
    assert spans.parent_of("invoke_agent supervisor") == ""
    fan = spans.named("parallel research")
    branches = [span for span in spans.ended if span.name == "branch helper"]
    agents = [span for span in spans.ended if span.name == "invoke_agent worker"]
    assert {branch.parent and branch.parent.span_id for branch in branches} == {id_of(fan)}
    assert {agent.parent and agent.parent.span_id for agent in agents} == {id_of(branch) for branch in branches}
    assert attributes_of(fan) == {"rotoscope.event_type": "parallel"}
    assert len({span.context.trace_id for span in spans.ended if span.context}) == 1


def test_error_is_told_by_its_type_alone(spans: Spans) -> None:
    @trace_tool
    def failing() -> None:
        raise ValueError("a secret")

    with pytest.raises(ValueError, match="a secret"):
        failing()

    [span] = spans.ended
    assert attributes_of(span)["error.type"] == "ValueError"
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.events == ()


def test_provider_may_be_set_after_decoration_and_be_replaced(spans: Spans) -> None:
    other = Spans()

    add(1, 2)
    with provided_by(None):
        add(1, 2)
    with provided_by(other.provider):
        add(1, 2)
    add(1, 2)

    assert (len(spans.ended), len(other.ended)) == (2, 1)


def test_spans_of_others_stand_below_ours_and_ours_below_theirs(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("theirs")

    @trace_tool
    def tool() -> None:
        with tracer.start_as_current_span("inner"):
            pass

    with tracer.start_as_current_span("outer"):
        tool()

    assert spans.parent_of("inner") == "execute_tool tool"
    assert spans.parent_of("execute_tool tool") == "outer"


class Raising(TracerProvider):
    """A provider whose tracers raise."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError("no tracer")


class RaisingAt(SpanProcessor):
    """Raises when a span starts or ends."""

    def __init__(self, when: str) -> None:
        self._when = when

    def on_start(self, span: Any, parent_context: Context | None = None) -> None:
        if self._when == "start":
            raise OSError("no start")

    def on_end(self, span: ReadableSpan) -> None:
        if self._when == "end":
            raise OSError("no end")


def provider_with(processor: SpanProcessor) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


@pytest.mark.parametrize(
    "provider",
    [
        lambda: Raising(shutdown_on_exit=False),
        lambda: provider_with(RaisingAt("start")),
        lambda: provider_with(RaisingAt("end")),
    ],
    ids=["tracer", "start", "end"],
)
def test_provider_that_raises_loses_spans_and_changes_nothing(
    provider: Callable[[], TracerProvider], caplog: pytest.LogCaptureFixture
) -> None:
    open_before, lost_before = counts.open, counts.lost

    with provided_by(provider()), caplog.at_level(logging.WARNING):
        assert supervisor() == [1, 2, 3]

    assert counts.open == open_before
    assert counts.lost >= lost_before + 8
    assert "no " not in caplog.text


class Hanging(SpanExporter):
    """Takes spans and does not come back."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.has_come = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.has_come.set()
        self.may_go_on.wait()
        raise OSError("no export")


def test_exporter_that_hangs_and_raises_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Hanging()
    batches = BatchSpanProcessor(exporter, max_export_batch_size=1, max_queue_size=2)

    with provided_by(provider_with(batches)), caplog.at_level(logging.CRITICAL):
        worker(1)
        assert exporter.has_come.wait(10)
        assert supervisor() == [1, 2, 3]
        exporter.may_go_on.set()
        batches.shutdown()  # type: ignore[no-untyped-call]


def test_spans_of_a_forked_process_are_its_own_and_open_ones_end_where_they_began(spans: Spans) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")

    @trace_agent(name="forking")
    def forking() -> bytes:
        reader, writer = os.pipe()
        if child := forked():
            os.close(writer)
            os.waitpid(child, 0)
            with os.fdopen(reader, "rb") as told:
                return told.read()
        try:
            worker(1)
            raise SystemExit
        finally:
            os.write(writer, json.dumps([spans.names, spans.parent_of("invoke_agent worker")]).encode())

    open_before = counts.open
    try:
        said = forking()
    except SystemExit:  # in the child, behind what is around its agent
        os._exit(0 if "invoke_agent forking" not in spans.names and counts.open == 0 else 1)

    names, parent = json.loads(said)
    assert names == ["execute_tool add", "invoke_agent worker"]
    assert parent == "a span that is not there"
    assert spans.names == ["invoke_agent forking"]
    assert counts.open == open_before


def forked() -> int:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, from Python 3.12 on
        return os.fork()


LOSING = """
    import logging, sys
    logging.basicConfig(format="%(message)s")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from rotoscope import trace_agent

    @trace_agent
    def agent():
        yield 1
        yield 2

    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    kept = agent()
    next(kept)
    sys.kept = kept
    provider.get_tracer = None
    from rotoscope.sdk import live_spans
    live_spans._known = None
    list(agent())
"""


def test_spans_that_are_lost_or_never_end_are_told_as_the_process_ends() -> None:
    ended = program(LOSING)

    assert ended.returncode == 0
    assert ended.stderr.splitlines() == [
        "spans are lost: TypeError",
        "as the process ends: spans that have not ended: 1; spans that were lost: 1",
    ]


def test_process_in_which_all_spans_ended_says_nothing() -> None:
    ended = program(LOSING.replace("sys.kept = kept", "kept.close()").split("    provider.get_tracer = None")[0])

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_agent_of_another_process_stands_below_the_span_that_the_environment_names() -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ended = program(
        """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from rotoscope import trace_agent

        trace.set_tracer_provider(TracerProvider())

        @trace_agent
        def agent():
            span = trace.get_current_span()
            print(f"{span.context.trace_id:032x} {span.parent.span_id:016x}")

        agent()
        """,
        TRACEPARENT=traceparent,
    )

    assert ended.stdout.split() == traceparent.split("-")[1:3]


POOL = """
import multiprocessing, sys
from rotoscope import trace_agent

@trace_agent
def worker(number):
    return number + 1

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(worker, [1, 2]))
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_decorated_functions_are_sent_to_processes_of_a_pool(start: str, tmp_path: Path) -> None:
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} here")
    script = tmp_path / "pool.py"
    script.write_text(POOL)

    ended = subprocess.run(
        [sys.executable, str(script), start], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.stdout.strip() == "[2, 3]", ended.stderr


def test_without_a_provider_no_sdk_is_loaded() -> None:
    ended = program(
        """
        import sys
        from rotoscope import trace_agent
        trace_agent(print)("done")
        print([name for name in sys.modules if name.startswith("opentelemetry")])
        import opentelemetry.trace
        trace_agent(print)("done")
        print("opentelemetry.sdk.trace" in sys.modules, "rotoscope.sdk.live_spans" in sys.modules)
        """
    )

    assert ended.stdout.splitlines() == ["done", "[]", "done", "False False"]


def test_context_of_the_caller_is_as_it_was(spans: Spans) -> None:
    @trace_tool
    async def ticking() -> Any:
        yield trace.get_current_span()
        await asyncio.sleep(0)
        yield trace.get_current_span()

    async def use() -> None:
        seen = []
        async for inside in ticking():
            assert trace.get_current_span() is trace.INVALID_SPAN
            seen.append(inside)
        assert seen[0] is seen[1] is not trace.INVALID_SPAN

    asyncio.run(use())
