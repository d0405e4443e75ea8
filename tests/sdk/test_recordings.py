"""What is known of agents that are under way, and what records them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping

import pytest
from event_loops import GUARD_S
from sdk_doubles import HeardRecording, recorded_by

from rotoscope import trace_agent
from rotoscope.recorder.variables import PROCESS_VARIABLE
from rotoscope.sdk import instrumenting, recordings
from rotoscope.sdk.recordings import open_agents


@trace_agent
def works(*, fails: bool = False) -> None:
    if fails:
        raise ValueError("failed")
    works_on()


@trace_agent
def works_on() -> None:
    assert open_agents


@trace_agent
def yields() -> Iterator[int]:
    yield from range(2)


@trace_agent
async def yields_in_a_loop() -> AsyncIterator[int]:
    for number in range(2):
        yield number


async def leaves_a_generator() -> None:
    async for _ in yields_in_a_loop():
        break


def test_agents_that_have_ended_are_kept_nowhere() -> None:
    before = len(open_agents)

    with recorded_by(HeardRecording()):
        works()
        with pytest.raises(ValueError, match="failed"):
            works(fails=True)
        next(yields())
        list(yields())
        asyncio.run(leaves_a_generator())

    assert len(open_agents) == before


def test_who_says_what_records_while_an_agent_looks_for_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    said = HeardRecording()

    def looks_while_another_thread_instruments(_: Mapping[str, str]) -> None:
        recordings.record_by(said)

    monkeypatch.setattr(instrumenting, "recording_by_environment", looks_while_another_thread_instruments)
    with recorded_by(None):
        monkeypatch.setattr(recordings, "_is_decided", False)

        assert recordings.is_on()
        assert recordings.current_recording() is said


def test_a_module_that_is_loaded_waits_for_no_thread_that_may_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROCESS_VARIABLE, "leads:nowhere:1")
    loads = threading.Thread(target=recordings.be_led, daemon=True)
    with recorded_by(None):
        monkeypatch.setattr(recordings, "_is_decided", False)
        with recordings._deciding:
            loads.start()
            loads.join(GUARD_S)

            assert not loads.is_alive()
