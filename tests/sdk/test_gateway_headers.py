"""What is told to a gateway on each request, and what is not told to anybody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from multidict import CIMultiDict
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider

from rotoscope import parallel, trace_agent, trace_tool
from rotoscope.recorder.marks import BranchMark, Mark, ToolMark
from rotoscope.sdk import recordings
from rotoscope.sdk.gateway_headers import GatewayHeaders
from rotoscope.sdk.gateways import gateway_at
from rotoscope.sdk.outgoing import Request

GATEWAY = "http://127.0.0.1:8484"
CALL = f"{GATEWAY}/v1/chat/completions"


class HeardRun:
    """A run that keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: list[Mark] = []

    def tell(self, mark: Mark) -> None:
        self.marks.append(mark)

    def end(self) -> None:
        pass

    def environment(self) -> dict[str, str]:
        return {}


class HeardRecording:
    """A recording of one run."""

    def __init__(self, run: HeardRun) -> None:
        self.run = run

    def begin_run(self) -> HeardRun:
        return self.run

    def join_run(self) -> None:
        return None

    def flush(self, timeout_s: float) -> None:
        pass


@pytest.fixture(params=["", "run-name"])
def run(request: pytest.FixtureRequest) -> Iterator[HeardRun]:
    recording = HeardRecording(HeardRun(request.param))
    recordings.record_by(recording)
    yield recording.run
    recordings.record_by(None)


def added_to(url: str = CALL, headers: Mapping[str, str] = {}, token: str = "") -> dict[str, str]:
    listener = GatewayHeaders(gateway_at(GATEWAY, token))
    outgoing = listener(Request("POST", url, CIMultiDict(headers), b"body"))
    return {} if outgoing is None else dict(outgoing.headers)


def test_line_its_parent_and_the_run_are_told(run: HeardRun) -> None:
    seen: list[dict[str, str]] = []

    @trace_agent
    def agent() -> None:
        seen.append(added_to())
        with parallel() as fan, fan.branch():
            seen.append(added_to())

    agent()

    [mark] = [mark for mark in run.marks if isinstance(mark, BranchMark)]
    of_run = {"x-rotoscope-run": run.name} if run.name else {}
    assert seen == [
        {"x-rotoscope-branch": mark.parent} | of_run,
        {"x-rotoscope-branch": mark.thread, "x-rotoscope-parent": mark.parent} | of_run,
    ]


def test_nothing_is_told_elsewhere_or_outside_of_agents(run: HeardRun) -> None:
    @trace_agent
    def agent() -> list[dict[str, str]]:
        return [added_to(url, token="t") for url in ("https://api.openai.com/v1", "http://127.0.0.1:8485/v1")]

    assert agent() == [{}, {}]
    assert added_to(token="t") == {}


def test_header_that_is_there_already_stays_as_it_is(run: HeardRun) -> None:
    @trace_agent
    def agent() -> list[dict[str, str]]:
        with parallel() as fan, fan.branch():
            ours = {"X-Rotoscope-Branch": "mine", "X-Rotoscope-Run": "mine", "x-rotoscope-token": "mine"}
            return [added_to(headers=ours, token="t"), added_to(headers={"X-Rotoscope-Branch": "mine"}, token="t")]

    all_there, branch_there = agent()
    assert all_there == {}
    assert branch_there == {"x-rotoscope-token": "t"} | ({"x-rotoscope-run": run.name} if run.name else {})


def test_tool_that_calls_the_model_is_no_tool(run: HeardRun) -> None:
    @trace_tool
    def calls() -> None:
        added_to()

    @trace_tool
    def looks_elsewhere() -> None:
        added_to("https://example.com/search")

    @trace_agent
    def agent() -> None:
        calls()
        looks_elsewhere()

    agent()

    assert [mark.name for mark in run.marks if isinstance(mark, ToolMark)] == ["looks_elsewhere"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    provider = TracerProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return provider


def test_current_span_is_told_unless_the_client_tells_it(run: HeardRun, provider: TracerProvider) -> None:
    assert propagate is not None  # loaded

    @trace_agent
    def agent() -> tuple[int, Any, Any]:
        span = trace.get_current_span().get_span_context().span_id
        return span, added_to().get("traceparent"), added_to(headers={"Traceparent": "mine"}).get("traceparent")

    span, told, beside = agent()
    assert told.split("-")[2] == f"{span:016x}"
    assert beside is None


def test_answer_and_body_pass_as_they_are(run: HeardRun) -> None:
    @trace_agent
    def agent() -> Any:
        body = b"body"
        outgoing = GatewayHeaders(gateway_at(GATEWAY))(Request("POST", CALL, {}, body))
        assert outgoing is not None
        assert outgoing.body is body
        outgoing.response(200, "text/plain")
        return outgoing.chunk(b"x"), outgoing.end()

    assert agent() == (b"x", b"")
