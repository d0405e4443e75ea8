"""What records, by what is given and by what the environment leads to."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from event_loops import GUARD_S
from sdk_gateways import agent_process, ran

from rotoscope import instrument, trace_agent
from rotoscope.sdk import recordings
from rotoscope.sdk.alone import Alone
from rotoscope.sdk.gateway_recording import GatewayRecording
from rotoscope.sdk.instrumenting import recording_by_environment
from rotoscope.sdk.scopes import current_scope
from rotoscope.sdk.spanned import with_call_spans
from rotoscope.sdk.transports.patching import listen, listening
from rotoscope.sdk.uplinks import Joined
from rotoscope.traces.errors import UnusableInput

HERE, THERE = "http://127.0.0.1:8484", "http://127.0.0.1:8585"


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("BASE_URL", "FOLDER", "GATEWAY", "RUN", "PARENT", "DISABLED", "TOKEN"):
        monkeypatch.delenv(f"ROTOSCOPE_{name}", raising=False)
    recordings.record_by(None)
    yield
    listen(None)
    recording = recordings.current_recording()
    recordings.record_by(None)
    if isinstance(recording, Alone):
        recording.close()


def port() -> int:
    recording = recordings.current_recording()
    assert isinstance(recording, GatewayRecording)
    return recording.gateway.port


def test_gateway_that_is_given_records_and_clients_are_heard() -> None:
    instrument(gateway=HERE)

    assert port() == 8484
    assert listening() is not None


def test_same_gateway_again_changes_nothing_and_another_takes_its_place() -> None:
    instrument(gateway=HERE)
    first = recordings.current_recording()
    instrument(gateway=f"{HERE}/v1")
    assert recordings.current_recording() is first
    instrument(gateway=THERE)

    assert port() == 8585


def test_with_nothing_that_records_clients_are_heard_for_spans_alone() -> None:
    instrument()

    assert recordings.current_recording() is None
    assert listening() == with_call_spans()
    instrument(gateway=HERE)
    heard = listening()
    instrument()
    assert listening() is heard


def test_folder_of_the_environment_records_where_it_names_no_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTOSCOPE_FOLDER", str(tmp_path))
    alone = recording_by_environment(os.environ)
    monkeypatch.setenv("ROTOSCOPE_GATEWAY", HERE)

    assert isinstance(alone, Alone)
    assert alone.folder == tmp_path
    alone.close()
    assert isinstance(recording_by_environment(os.environ), GatewayRecording)


def test_folder_that_is_given_records(tmp_path: Path) -> None:
    instrument(folder=tmp_path)
    alone = recordings.current_recording()
    instrument(folder=str(tmp_path))

    assert isinstance(alone, Alone)
    assert recordings.current_recording() is alone
    assert listening() == with_call_spans(alone.hear)
    alone.close()


def test_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnusableInput, match="file: traces cannot be written here: "):
        instrument(folder=tmp_path / "file")
    assert recordings.current_recording() is None


def test_agent_that_is_recorded_into_a_folder_is_a_run_of_its_own_in_a_process_that_an_agent_began(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROTOSCOPE_PARENT", "a")
    instrument(folder=tmp_path)

    @trace_agent
    def agent() -> bool:
        scope = current_scope()
        return scope is not None and scope.line.parent is None and scope.line.name != "a"

    assert agent()


def test_gateway_of_the_command_comes_before_what_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROTOSCOPE_BASE_URL", f"{THERE}/v1")
    for given in ({"gateway": HERE}, {"folder": str(tmp_path)}, {}):
        recordings.record_by(None)
        instrument(**given)

        assert port() == 8585
    assert list(tmp_path.iterdir()) == []


def test_environment_decides_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    instrument()
    assert recordings.current_recording() is None
    monkeypatch.setenv("ROTOSCOPE_GATEWAY", HERE)
    instrument()
    assert port() == 8484


def test_disabled_nothing_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTOSCOPE_DISABLED", "1")
    instrument(gateway=HERE)

    assert recordings.current_recording() is None
    assert listening() is None


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="expected gateway= or folder=, not both"):
        instrument(gateway=HERE, folder=tmp_path)
    with pytest.raises(UnusableInput, match="the gateway has no URL like"):
        instrument(gateway="canary")


WITH_SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
@trace_agent
def agent():
    with parallel() as fan, fan.branch():
        return trace.get_current_span().is_recording(), current_run() is not None, recordings.is_on()
print(*agent())
"""


@pytest.mark.parametrize(("disabled", "told"), [("", "True True True"), ("1", "False False False")])
def test_disabled_there_are_no_runs_and_no_spans(disabled: str, told: str) -> None:
    environment = {"ROTOSCOPE_GATEWAY": "http://127.0.0.1:9", "ROTOSCOPE_DISABLED": disabled}

    assert ran(WITH_SPANS, environment=environment)[0] == f"{told}\n"


LATER = """
agent_of("t")
os.environ["ROTOSCOPE_GATEWAY"] = "http://127.0.0.1:9"
print("http.client" in sys.modules, recordings.current_recording())
@trace_agent
def agent():
    print(current_run())
agent()
"""


def test_environment_is_looked_at_when_the_first_agent_runs() -> None:
    with agent_process(LATER) as process:  # one that has loaded nothing
        out, _ = process.communicate()
    assert out.splitlines() == ["False None", "CurrentRun()"]


def test_environment_that_leads_nowhere_is_told_once_and_hurts_nobody() -> None:
    out, err = ran("agent_of('t')()\nagent_of('t')()\nprint('output')", environment={"ROTOSCOPE_GATEWAY": "canary"})

    assert out == "output\n"
    assert err == "agents are not recorded: the gateway has no URL like 'http://127.0.0.1:8484'\n"


def test_environment_is_looked_at_once_however_many_threads_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, is_in, may_go_on = list[int](), threading.Event(), threading.Event()

    def look() -> None:
        looked.append(1)
        is_in.set()
        assert may_go_on.wait(GUARD_S)

    monkeypatch.setattr(recordings, "_recording", None)
    monkeypatch.setattr(recordings, "_is_decided", False)
    monkeypatch.setattr(recordings, "_by_environment", look)
    threads = [threading.Thread(target=recordings.is_on) for _ in range(3)]
    threads[0].start()
    assert is_in.wait(GUARD_S)
    for thread in threads[1:]:
        thread.start()
    may_go_on.set()
    for thread in threads:
        thread.join(GUARD_S)

    assert looked == [1]


def test_process_that_another_one_records_is_led_there_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROTOSCOPE_PROCESS", "@rotoscope-nobody:token:1")
    instrument()
    led = recordings.current_recording()
    instrument(folder=tmp_path)

    assert isinstance(led, Joined)
    assert recordings.current_recording() is led
