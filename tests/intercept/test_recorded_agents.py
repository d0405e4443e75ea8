"""Real clients through an interception: the same trace as through the gateway, and no content in any byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from clients.checks import kept_content, other_lengths, sent_canaries
from clients.recorded import Recorded
from clients.stage import new_canaries
from clients.truth import true_calls
from intercept.agents import Way, record, without_times_and_ids
from intercept.fronts import Front

WAYS: tuple[Way, ...] = ("gateway", "1.1", "2")
SPOKEN = {"gateway": "1.1", "1.1": "1.1", "2": "2"}


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def recorded(
    request: pytest.FixtureRequest, python: Path, front: Front, tmp_path_factory: pytest.TempPathFactory
) -> dict[Way, Recorded]:
    """One run of an agent, recorded in each way."""

    async def record_all() -> dict[Way, Recorded]:
        canaries, folder = new_canaries(), tmp_path_factory.mktemp(request.param)
        return {
            way: await record(request.param, way, python=python, front=front, folder=folder / way, canaries=canaries)
            for way in WAYS
        }

    return asyncio.run(record_all())


@pytest.mark.parametrize("way", ["1.1", "2"])
def test_the_trace_is_that_of_the_gateway(recorded: dict[Way, Recorded], way: Way) -> None:
    assert without_times_and_ids(recorded[way].trace) == without_times_and_ids(recorded["gateway"].trace)


@pytest.mark.parametrize("way", ["1.1", "2"])
def test_lengths_are_those_of_the_server(recorded: dict[Way, Recorded], way: Way) -> None:
    assert other_lengths(true_calls(recorded[way])) == []


@pytest.mark.parametrize("way", ["1.1", "2"])
def test_a_request_that_is_refused_twice_is_one_call(recorded: dict[Way, Recorded], way: Way) -> None:
    assert [call.attempts for call in recorded[way].trace.calls() if call.attempts] == [3]


@pytest.mark.parametrize("way", ["1.1", "2"])
def test_a_stream_that_was_left_is_a_cancelled_call(recorded: dict[Way, Recorded], way: Way) -> None:
    cancelled = [one for one in true_calls(recorded[way]) if one.call.finish_reason == "cancelled"]

    assert len(cancelled) == 1
    assert 0 < cancelled[0].call.completion_tokens < 2 * cancelled[0].generation.generated
    assert cancelled[0].generation.generated < len(cancelled[0].generation.output_ids)


@pytest.mark.parametrize("way", ["1.1", "2"])
def test_nothing_that_anyone_said_is_in_any_byte(recorded: dict[Way, Recorded], way: Way) -> None:
    assert sent_canaries(recorded[way]) >= {1, 2, 5, 7}
    assert kept_content(recorded[way]) == []
