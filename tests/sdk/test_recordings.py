"""What is known of agents that are under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from sdk_doubles import HeardRecording, recorded_by

from rotoscope import trace_agent
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
