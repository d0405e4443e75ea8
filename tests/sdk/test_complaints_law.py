"""What users of other instrumentations complain of, each with a thread where they do, does not happen with ours.

The symptom of each is made as its thread describes it, with the real SDK of OpenTelemetry and its log.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import time
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from aiohttp import web
from chat_wire import sse
from opentelemetry import context, propagate
from sdk_doubles import Spans, dropping, id_of, program, provided_by
from sdk_worlds import heard_by, recorded_alone, serving_from_a_thread, traces_in

from rotoscope import parallel, trace_agent, trace_tool
from rotoscope.sdk.gateway_headers import GatewayHeaders
from rotoscope.sdk.gateways import gateway_at
from rotoscope.sdk.spanned import with_call_spans
from rotoscope.sdk.spans import counts


@pytest.fixture(autouse=True, scope="module")
def little_to_collect() -> None:
    """Let the garbage collector, which is asked here for each test, leave alone what all others have left."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def spans(caplog: pytest.LogCaptureFixture) -> Iterator[Spans]:
    """Keep the spans of a test; in the end all have ended, and OpenTelemetry has logged nothing."""
    kept, open_before, lost_before = Spans(), counts.open, counts.lost
    with provided_by(kept.provider):
        yield kept
    gc.collect()
    assert counts.open == open_before
    assert counts.lost == lost_before
    logged = [*caplog.get_records("call"), *caplog.records]
    assert [record.message for record in logged if record.name.startswith("opentelemetry")] == []


@trace_agent(name="streamed")
async def streamed(most: int = 3) -> AsyncIterator[int]:
    for number in range(most):
        await asyncio.sleep(0)
        yield step(number)


@trace_tool
def step(number: int) -> int:
    return number


@trace_tool
async def fetch(number: int) -> int:
    await asyncio.sleep(0)
    return number


class TestAsyncGeneratorSpanCreatedInADifferentContextOnCloseOrCancel:
    """traceloop/openllmetry#3061, google/adk-python#4894 (PR 4919), agentscope-ai/agentscope#2076,
    withceleste/celeste-python#276, agno-agi/agno#3220, langfuse/langfuse#13590: "Failed to detach context" in the log,
    "Token was created in a different Context".
    """

    def test_closed_by_another_task(self, spans: Spans) -> None:
        async def use() -> None:
            left = streamed()
            assert await anext(left) == 0
            await asyncio.create_task(closed(left))

        asyncio.run(use())

        assert spans.names == ["execute_tool step", "invoke_agent streamed"]
        assert spans.parent_of("execute_tool step") == "invoke_agent streamed"

    def test_left_by_break_and_closed_by_the_loop(self, spans: Spans) -> None:
        async def use() -> None:
            async for _ in streamed():
                break
            gc.collect()
            for _ in range(3):
                await asyncio.sleep(0)

        asyncio.run(use())

        assert spans.names == ["execute_tool step", "invoke_agent streamed"]

    def test_consumer_cancelled_in_the_middle_of_a_step(self, spans: Spans) -> None:
        @trace_agent(name="stuck")
        async def stuck() -> AsyncIterator[int]:
            yield 1
            await asyncio.Event().wait()

        async def consume() -> None:
            async for _ in stuck():
                pass

        async def use() -> None:
            task = asyncio.create_task(consume())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(use())

        assert (spans.named("invoke_agent stuck").attributes or {})["error.type"] == "CancelledError"

    def test_each_step_in_a_task_of_its_own(self, spans: Spans) -> None:
        """langchain-ai/langsmith-sdk#2431: what a step begins has lost its parent."""

        async def use() -> list[int]:
            steps, seen = streamed(), []
            while (number := await asyncio.create_task(next_of(steps))) is not None:
                seen.append(number)
            return seen

        assert asyncio.run(use()) == [0, 1, 2]
        agent = spans.named("invoke_agent streamed")
        assert [span.parent and span.parent.span_id for span in spans.ended[:3]] == [id_of(agent)] * 3

    def test_plain_generator_closed_in_another_context(self, spans: Spans) -> None:
        @trace_agent(name="plain")
        def plain() -> Iterator[int]:
            with parallel("fan") as fan, fan.branch("one"):
                yield step(1)
                yield step(2)

        left: Any = plain()
        contextvars.copy_context().run(next, left)
        contextvars.copy_context().run(left.close)

        assert spans.names[-1] == "invoke_agent plain"

    def test_block_of_a_generator_that_is_not_decorated(self, spans: Spans) -> None:
        async def fanning() -> AsyncIterator[int]:
            with parallel("fan") as fan, fan.branch("one"):
                yield step(1)

        async def use() -> None:
            left = fanning()
            assert await anext(left) == 1
            await asyncio.create_task(closed(left))

        asyncio.run(use())

        assert spans.names == ["execute_tool step", "branch one", "parallel fan"]

    def test_coroutine_left_in_the_middle_and_collected_elsewhere(self, spans: Spans) -> None:
        @trace_tool
        async def stuck() -> None:
            await asyncio.sleep(0)

        left = stuck()
        contextvars.copy_context().run(left.send, None)
        del left
        gc.collect()

        assert (spans.named("execute_tool stuck").attributes or {})["error.type"] == "GeneratorExit"


async def closed(left: Any) -> None:
    await left.aclose()


async def next_of(steps: AsyncIterator[int]) -> int | None:
    return await anext(steps, None)


class TestGeneratorSpansOfZeroLengthOrSiblingsInsteadOfParents:
    """langfuse/langfuse#7749, langfuse/langfuse-python#1183: the span of a generator ends when it is made, and what it
    does between its values stands beside it.
    """

    @pytest.mark.parametrize("returned", [False, True], ids=["generator function", "function that returns one"])
    def test_generator_span_lasts_until_its_last_value_and_holds_what_it_does(
        self, returned: bool, spans: Spans
    ) -> None:
        def values() -> Iterator[int]:
            yield step(1)
            time.sleep(0.002)
            yield 2

        def given() -> Iterator[int]:
            return values()

        made = trace_agent(name="values")(given if returned else values)()
        assert spans.ended == []
        assert list(made) == [1, 2]

        assert spans.names == ["execute_tool step", "invoke_agent values"]
        assert spans.parent_of("execute_tool step") == "invoke_agent values"
        assert spans.seconds("invoke_agent values") >= 0.002

    def test_consumer_s_own_spans_are_not_below_the_generator(self, spans: Spans) -> None:
        @trace_agent(name="values")
        def values() -> Iterator[int]:
            yield 1

        for _ in values():
            step(1)

        assert spans.parent_of("execute_tool step") == ""

    def test_generators_in_turns_keep_their_own_steps(self, spans: Spans) -> None:
        @trace_agent
        def values(name: str) -> Iterator[int]:
            yield trace_tool(name=f"first of {name}")(step_of)()
            yield trace_tool(name=f"second of {name}")(step_of)()

        one, two = (trace_agent(name=name)(values.__wrapped__)(name) for name in ("one", "two"))  # type: ignore[attr-defined]
        for _ in zip(one, two, strict=True):
            pass

        for name in ("one", "two"):
            for place in ("first", "second"):
                assert spans.parent_of(f"execute_tool {place} of {name}") == f"invoke_agent {name}"


def step_of() -> int:
    return 1


class TestEveryStepItsOwnRootUnderAsync:
    """open-telemetry/opentelemetry-python-genai#513, Arize-ai/openinference#147, #1304 (LangGraph): a scheduler runs each
    node in a task, and the spans of all nodes are roots.
    """

    def test_nodes_that_a_scheduler_runs_in_tasks_stand_below_the_agent(self, spans: Spans) -> None:
        @trace_agent(name="graph")
        async def graph() -> None:
            ready: asyncio.Queue[Callable[[], Any]] = asyncio.Queue()
            for number in range(3):
                ready.put_nowait(lambda number=number: fetch(number))  # type: ignore[misc]
            async with asyncio.TaskGroup() as group:
                while not ready.empty():
                    group.create_task(ready.get_nowait()())

        asyncio.run(graph())

        assert parents(spans, "execute_tool fetch") == ["invoke_agent graph"] * 3

    def test_nodes_in_threads_of_the_loop_stand_below_the_agent(self, spans: Spans) -> None:
        @trace_agent(name="graph")
        async def graph() -> None:
            await asyncio.gather(*(asyncio.to_thread(step, number) for number in range(3)))

        asyncio.run(graph())

        assert parents(spans, "execute_tool step") == ["invoke_agent graph"] * 3


class TestSpansLostUnderAsyncioGather:
    """microsoft/agent-framework#6357, langfuse/langfuse-python#1640, BerriAI/litellm#26376: of calls that run at once some
    have no span.
    """

    def test_each_of_many_tools_at_once_has_its_span_below_the_agent(self, spans: Spans) -> None:
        @trace_agent(name="agent")
        async def agent() -> list[int]:
            return await asyncio.gather(*map(fetch, range(200)))

        assert asyncio.run(agent()) == list(range(200))
        assert parents(spans, "execute_tool fetch") == ["invoke_agent agent"] * 200

    def test_one_that_fails_takes_no_other_span_along(self, spans: Spans) -> None:
        @trace_tool
        async def failing() -> int:
            raise ValueError

        @trace_agent(name="agent")
        async def agent() -> Any:
            return await asyncio.gather(fetch(1), failing(), fetch(2), return_exceptions=True)

        asyncio.run(agent())

        assert sorted(spans.names) == ["execute_tool failing", *["execute_tool fetch"] * 2, "invoke_agent agent"]


class TestToolSpansWithoutParentOrWithZeroDuration:
    """huggingface/smolagents#1961, Arize-ai/openinference#3343: tools that run in threads are roots; tools last nothing."""

    def test_tool_in_a_thread_of_a_branch_has_its_branch_for_parent(self, spans: Spans) -> None:
        @trace_agent(name="agent")
        def agent() -> None:
            with parallel("fan") as fan, ThreadPoolExecutor() as pool:

                def in_thread() -> int:
                    with fan.branch("branch"):
                        return step(1)

                pool.submit(in_thread).result()

        agent()

        assert spans.parent_of("execute_tool step") == "branch branch"
        assert spans.parent_of("branch branch") == "parallel fan"

    def test_tool_in_a_thread_of_the_framework_s_own_is_carried_there(self, spans: Spans, tmp_path: Path) -> None:
        """Python hands no context to threads; `current_run().wrap` does."""
        from rotoscope import current_run

        @trace_agent(name="agent")
        def agent() -> None:
            run = current_run()
            assert run is not None
            with ThreadPoolExecutor() as pool:
                pool.submit(run.wrap(step), 1).result()

        with recorded_alone(tmp_path):
            agent()

        assert spans.parent_of("execute_tool step") == "invoke_agent agent"

    @pytest.mark.parametrize("kind", ["function", "coroutine", "returned coroutine", "generator"])
    def test_tool_span_has_the_tool_s_own_time(self, kind: str, spans: Spans) -> None:
        seconds = 0.003

        def function() -> None:
            time.sleep(seconds)

        async def coroutine() -> None:
            time.sleep(seconds)  # noqa: ASYNC251 - the time of the tool itself

        def generator() -> Iterator[int]:
            yield 1
            time.sleep(seconds)

        async def run(made: Any) -> None:
            await made

        tool = {"function": function, "generator": generator}.get(kind, coroutine)
        made: Any = trace_tool(name="tool")((lambda: coroutine()) if kind == "returned coroutine" else tool)()
        if kind == "generator":
            list(made)
        elif kind != "function":
            asyncio.run(run(made))

        assert spans.seconds("execute_tool tool") >= seconds


class TestCrossServiceParentCannotBeSet:
    """langfuse/langfuse#3190, langfuse/langfuse#10721: an agent that another service calls begins a trace of its own."""

    def test_agent_stands_below_the_span_of_the_service_that_calls(self, spans: Spans) -> None:
        traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

        token = context.attach(propagate.extract({"traceparent": traceparent}))
        try:
            step(1)
        finally:
            context.detach(token)

        [span] = spans.ended
        assert span.parent is not None
        assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == traceparent[3:52]

    def test_service_that_the_agent_calls_can_stand_below_it(self, spans: Spans) -> None:
        told: dict[str, str] = {}

        @trace_tool
        def calling() -> None:
            propagate.inject(told)

        calling()

        assert told["traceparent"].split("-")[2] == f"{id_of(spans.ended[0]):016x}"


def parents(spans: Spans, name: str) -> list[str]:
    names = {id_of(span): span.name for span in spans.ended}
    return [names[span.parent.span_id] if span.parent else "" for span in spans.ended if span.name == name]


def chunk(text: str) -> dict[str, Any]:
    return {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [delta_of(text)]}


def delta_of(text: str) -> dict[str, Any]:
    return {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None if text else "stop"}


USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer a chat completion, with usage in a stream only where it was asked for, and say what headers came."""
    headers_that_came.append([name.lower() for name in request.headers])
    body = await request.json()
    if not body.get("stream"):
        message = {"role": "assistant", "content": "done"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": USAGE}
        )
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for text in ("do", "ne", ""):
        await response.write(sse(chunk(text)))
    if (body.get("stream_options") or {}).get("include_usage"):
        await response.write(sse({**chunk(""), "choices": [], "usage": USAGE}))
    await response.write(sse("[DONE]"))
    return response


headers_that_came: list[list[str]] = []


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving_from_a_thread(answer) as origin:
        yield origin


@pytest.fixture
def client(origin: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{origin}/v1", api_key="secret", max_retries=0) as client:
        yield client


def said(stream: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


HELLO: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def usage_told(spans: Spans) -> list[tuple[Any, Any]]:
    told = [dict(span.attributes or {}) for span in spans.ended if span.name == "chat m"]
    return [(x.get("gen_ai.usage.input_tokens"), x.get("gen_ai.usage.output_tokens")) for x in told]


class TestStreamedUsageMissing:
    """pydantic/logfire#1280, #1651, run-llama/llama_index#16721: the span of a stream has no tokens."""

    @pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}], ids=["unasked", "asked"])
    def test_stream_has_its_usage_whether_the_client_asks_or_not(
        self, options: Any, spans: Spans, client: openai.OpenAI, tmp_path: Path
    ) -> None:
        @trace_agent
        def agent() -> list[Any]:
            return list(client.chat.completions.create(stream=True, **HELLO, **options))

        with recorded_alone(tmp_path), heard_by_call_spans():
            chunks = agent()
            [trace] = traces_in(tmp_path)

        assert usage_told(spans) == [(20, 5)]
        assert [(call.prompt_tokens, call.completion_tokens) for call in trace.calls()] == [(20, 5)]
        assert bool([x for x in chunks if x.usage]) == bool(options)

    def test_stream_has_its_usage_without_any_recording(self, spans: Spans, client: openai.OpenAI) -> None:
        with heard_by(with_call_spans()):
            assert said(client.chat.completions.create(stream=True, **HELLO)) == "done"

        assert usage_told(spans) == [(20, 5)]


def heard_by_call_spans() -> Any:
    """Put spans of calls around who listens now."""
    from rotoscope.sdk.transports.patching import listening

    now = listening()
    return heard_by(with_call_spans(now))


class TestUsagePresentButIgnored:
    """traceloop/openllmetry#2898: a model of unknown name has no tokens told, though the answer has them."""

    def test_usage_of_the_answer_is_told_whatever_the_model_is_called(
        self, spans: Spans, client: openai.OpenAI
    ) -> None:
        with heard_by(with_call_spans()):
            client.chat.completions.create(**HELLO)

        assert usage_told(spans) == [(20, 5)]


class TestStreamedRunClosesTraceEarlyOrRootIsEmpty:
    """openai/openai-agents-js#570, mlflow/mlflow#22739: the root ends when the stream is handed out; what comes of it is
    outside.
    """

    def test_run_ends_behind_its_last_value_and_holds_its_calls(
        self, spans: Spans, client: openai.OpenAI, tmp_path: Path
    ) -> None:
        @trace_agent(name="streaming")
        def streaming() -> Iterator[str]:
            for part in client.chat.completions.create(stream=True, **HELLO):
                if part.choices:
                    yield part.choices[0].delta.content or ""
            yield str(client.chat.completions.create(**HELLO).choices[0].message.content)

        with recorded_alone(tmp_path), heard_by_call_spans():
            for _ in streaming():
                assert "invoke_agent streaming" not in spans.names
                assert traces_in(tmp_path) == []
            [trace] = traces_in(tmp_path)

        assert spans.names == ["chat m", "chat m", "invoke_agent streaming"]
        assert parents(spans, "chat m") == ["invoke_agent streaming"] * 2
        assert len(list(trace.calls())) == 2

    def test_run_that_is_handed_out_by_a_plain_function_ends_with_the_stream(self, spans: Spans) -> None:
        async def events() -> AsyncIterator[int]:
            yield step(1)

        @trace_agent(name="run_streamed")
        def run_streamed() -> AsyncIterator[int]:
            return events()

        async def use() -> None:
            async for _ in run_streamed():
                assert "invoke_agent run_streamed" not in spans.names

        asyncio.run(use())

        assert spans.parent_of("execute_tool step") == "invoke_agent run_streamed"

    def test_stream_that_is_left_half_way_is_told_of(self, spans: Spans, client: openai.OpenAI) -> None:
        """Arize-ai/openinference#3796, traceloop/openllmetry#3151: a stream that is not read to its end has no span."""
        with heard_by(with_call_spans()), client.chat.completions.create(stream=True, **HELLO) as stream:
            next(iter(stream))

        assert spans.names == ["chat m"]


class TestInstrumentationBrokeStreaming:
    """traceloop/openllmetry#165, open-telemetry/opentelemetry-python-contrib#4710: streams come whole, or are no longer
    closed, once they are instrumented.
    """

    def test_values_come_one_by_one_as_they_are_made(self, spans: Spans) -> None:
        made: list[int] = []

        @trace_tool
        def values() -> Iterator[int]:
            for number in range(3):
                made.append(number)
                yield number

        for number in values():
            assert made == list(range(number + 1))

    def test_closing_the_stream_closes_what_is_inside(self, spans: Spans) -> None:
        closed: list[str] = []

        @trace_tool
        async def values() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                closed.append("inside")

        async def use() -> None:
            made: Any = values()
            await anext(made)
            await made.aclose()
            assert closed == ["inside"]

        asyncio.run(use())

    def test_bytes_of_an_answer_come_as_they_are_sent(self, spans: Spans) -> None:
        may_go_on = asyncio.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def slow(request: web.Request) -> web.StreamResponse:
            loops.append(asyncio.get_running_loop())
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(sse(chunk("first")))
            await may_go_on.wait()
            await response.write(sse(chunk("last")))
            return response

        asked = {**HELLO, "stream": True}
        with (
            serving_from_a_thread(slow) as origin,
            heard_by(with_call_spans()),
            httpx2.stream("POST", f"{origin}/v1/chat/completions", json=asked) as response,
        ):
            pieces = response.iter_bytes()
            assert b"first" in next(pieces)
            loops[0].call_soon_threadsafe(may_go_on.set)
            assert b"last" in b"".join(pieces)


class TestMemoryLeak:
    """traceloop/openllmetry#2790, langfuse/langfuse#4977: memory grows with every call."""

    TIMES = 5_000

    def test_nothing_of_ours_stays_of_calls_and_of_generators_that_are_left_half_way(self) -> None:
        class Argument:
            pass

        @trace_tool
        def tool(argument: Argument) -> Argument:
            return argument

        @trace_agent
        def left(argument: Argument) -> Iterator[Argument]:
            yield tool(argument)
            yield argument

        def use(times: int) -> list[weakref.ref[Argument]]:
            seen = []
            for _ in range(times):
                argument = Argument()
                next(iter(left(argument)))
                seen.append(weakref.ref(argument))
            return seen

        open_before = counts.open
        with provided_by(dropping()):
            use(10)
            gc.collect()
            objects_before = len(gc.get_objects())
            seen = use(self.TIMES)
            is_gone = [one() is None for one in seen]
            gc.collect()

        assert all(is_gone)  # at once, without the garbage collector
        assert counts.open == open_before
        assert len(gc.get_objects()) - objects_before < self.TIMES // 10 + len(seen)

    def test_async_generators_that_are_left_leave_nothing(self) -> None:
        async def use() -> None:
            for _ in range(1000):
                async for _ in streamed(2):
                    break
            await asyncio.sleep(0)

        open_before = counts.open
        with provided_by(dropping()):
            asyncio.run(use())
            gc.collect()

        assert counts.open == open_before

    def test_memory_of_a_failing_tool_does_not_grow(self) -> None:
        @trace_tool
        def failing(text: str) -> None:
            raise ValueError(text)

        def use(times: int) -> int:
            for number in range(times):
                with pytest.raises(ValueError, match="x"):
                    failing(f"x{number}" * 1000)
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            with provided_by(dropping()):
                grown = -use(100) + use(300)
        finally:
            tracemalloc.stop()

        assert grown < 100_000


class TestLatency:
    """BerriAI/litellm#26193: the request waits for the exporter. `benchmarks/decorators.py` has the figures."""

    def test_call_does_not_wait_for_an_exporter(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

        class Stuck(SpanExporter):
            is_free = False

            def export(self, spans: Any) -> SpanExportResult:
                while not self.is_free:
                    time.sleep(0.001)
                return SpanExportResult.SUCCESS

        exporter = Stuck()
        batches = BatchSpanProcessor(exporter, max_export_batch_size=1)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(batches)
        with provided_by(provider):
            assert [step(number) for number in range(20)] == list(range(20))
        exporter.is_free = True
        batches.shutdown()  # type: ignore[no-untyped-call]


class TestPromptsInSpansByDefaultAndNoSwitch:
    """candelahq/candela#590, crewAIInc/crewAI#7597, traceloop/openllmetry#15. `test_span_content_law.py` has the law; here
    there is no switch to be found that would let content in.
    """

    def test_no_content_is_in_spans_whatever_the_environment_says(
        self, spans: Spans, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRACELOOP_TRACE_CONTENT", "true")
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")

        @trace_agent
        def agent(prompt: str) -> str:
            messages: Any = [{"role": "user", "content": prompt}]
            answer = client.chat.completions.create(model="m", messages=messages)
            return str(answer.choices[0].message.content)

        with heard_by(with_call_spans()):
            assert agent("a secret prompt") == "done"

        assert len(spans.ended) == 2
        for span in spans.ended:
            assert "secret" not in span.to_json()
            assert "done" not in span.to_json()


class TestSessionHeaderWithoutOptOut:
    """anthropics/claude-code#40431: each request tells servers which session it is of, and there is no way not to."""

    def test_servers_are_told_nothing_where_there_is_no_gateway(
        self, spans: Spans, client: openai.OpenAI, tmp_path: Path
    ) -> None:
        headers_that_came.clear()

        @trace_agent
        def agent() -> None:
            client.chat.completions.create(**HELLO)

        with recorded_alone(tmp_path), heard_by_call_spans():
            agent()

        assert [name for name in headers_that_came[0] if name.startswith(("x-rotoscope", "trace"))] == []

    def test_only_the_gateway_is_told_and_no_other_server(
        self, spans: Spans, client: openai.OpenAI, origin: str, tmp_path: Path
    ) -> None:
        headers_that_came.clear()

        @trace_agent
        def agent() -> None:
            client.chat.completions.create(**HELLO)

        elsewhere = "http://127.0.0.1:9"
        with recorded_alone(tmp_path):
            for gateway in (elsewhere, origin):
                with heard_by(with_call_spans(GatewayHeaders(gateway_at(gateway)))):
                    agent()

        told = [{name for name in names if name.startswith(("x-rotoscope", "trace"))} for names in headers_that_came]
        assert told[0] == set()
        assert told[1] >= {"x-rotoscope-branch", "traceparent"}

    def test_all_of_it_can_be_turned_off(self) -> None:
        """`ROTOSCOPE_DISABLED=1`: tests/sdk/test_instrumenting.py; here, that off means without spans too."""
        ended = program(
            """
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
            from rotoscope import current_run, trace_agent
            trace.set_tracer_provider(TracerProvider())

            @trace_agent
            def agent():
                print(trace.get_current_span() is trace.INVALID_SPAN, current_run())

            agent()
            """,
            ROTOSCOPE_DISABLED="1",
        )

        assert ended.stdout.split() == ["True", "None"]
