"""What code is told of the run that it stands in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from event_loops import GUARD_S
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from rotoscope import current_run, instrument, trace_agent, trace_tool
from rotoscope.sdk import recordings
from rotoscope.sdk.scopes import current_scope
from rotoscope.sdk.transports.patching import listen

GATEWAY = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("BASE_URL", "GATEWAY", "RUN", "PARENT", "DISABLED", "TOKEN"):
        monkeypatch.delenv(f"ROTOSCOPE_{name}", raising=False)
    instrument(gateway=GATEWAY)
    yield
    listen(None)
    recordings.record_by(None)


@trace_agent
def environment() -> dict[str, str]:
    run = current_run()
    assert run is not None
    return run.environment()


def test_environment_leads_to_gateway_run_and_line() -> None:
    told = environment()

    assert told.keys() == {"ROTOSCOPE_GATEWAY", "ROTOSCOPE_PARENT", "ROTOSCOPE_RUN"}
    assert told["ROTOSCOPE_GATEWAY"] == GATEWAY


def test_process_that_was_begun_with_it_hands_on_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    first = environment()
    for name, value in first.items():
        monkeypatch.setenv(name, value)
    recordings.record_by(None)
    instrument()
    second = environment()

    assert second["ROTOSCOPE_RUN"] == first["ROTOSCOPE_RUN"]
    assert second["ROTOSCOPE_PARENT"] != first["ROTOSCOPE_PARENT"]


def test_run_that_the_environment_names_is_that_of_all_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTOSCOPE_RUN", "mine")

    assert [environment()["ROTOSCOPE_RUN"] for _ in range(2)] == ["mine", "mine"]


@pytest.mark.parametrize("name", ["Käse", "two\r\nlines", " spaces ", "100%"])
def test_any_name_becomes_one_that_headers_can_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTOSCOPE_RUN", name)
    monkeypatch.setenv("ROTOSCOPE_PARENT", name)

    @trace_agent
    def headers() -> dict[str, str]:
        run = current_run()
        assert run is not None
        return run.headers()

    told = headers()
    assert told["x-rotoscope-run"] == told["x-rotoscope-parent"]
    assert all(value.isascii() and value.isprintable() and value == value.strip() for value in told.values())


def test_current_span_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider())

    version, _, span, _ = environment()["TRACEPARENT"].split("-")

    assert version == "00"
    assert int(span, 16)


def test_tool_that_hands_it_on_is_no_tool() -> None:
    @trace_tool
    def begins_process() -> bool:
        run, scope = current_run(), current_scope()
        assert run is not None
        assert scope is not None
        run.environment()
        return scope.has_calls

    assert trace_agent(begins_process)()


@trace_agent
def in_two_threads_at_once() -> list[bool]:
    run, scope, both = current_run(), current_scope(), threading.Barrier(2, timeout=GUARD_S)
    assert run is not None

    def is_here(_: int) -> bool:
        both.wait()
        return current_scope() is scope

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run.wrap(is_here), range(2)))


def test_wrapped_function_may_run_in_several_threads_at_once() -> None:
    assert in_two_threads_at_once() == [True, True]


def test_run_that_the_path_names_is_in_no_header() -> None:
    instrument(gateway="http://127.0.0.1:9/run/x/v1")

    @trace_agent
    def headers() -> dict[str, str]:
        run = current_run()
        assert run is not None
        return run.headers()

    assert headers().keys() == {"x-rotoscope-branch"}
