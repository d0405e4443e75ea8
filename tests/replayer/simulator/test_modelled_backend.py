from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import numpy as np
import pytest
from event_loops import in_jumping_loop

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.simulator.fleet import Fleet
from rotoscope.replayer.simulator.modelled_backend import ModelledBackend
from rotoscope.replayer.simulator.modelled_time import ModelledClock
from rotoscope.replayer.simulator.server import SimulatorOptions, fleet_of
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.replayer.text import PackedIds

TIMING = Timing(prefill_tokens_per_s=100.0, decode_step_s=((1, 0.1),), request_overhead_s=0.5)


@asynccontextmanager
async def running_fleet(options: SimulatorOptions) -> AsyncIterator[Fleet]:
    fleet = fleet_of(options, ModelledClock)
    task = asyncio.create_task(fleet.run())
    try:
        yield fleet
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def backend_of(fleet: Fleet, *, timeout_s: float = 600.0) -> ModelledBackend:
    return ModelledBackend(fleet, context_tokens=1600, seed=0, timeout_s=timeout_s, tell=lambda kind, message: None)


def make_exchange(prompt_tokens: int = 100, output_tokens: int = 3) -> Exchange:
    text = PackedIds()
    text.append(np.arange(1000, 1000 + prompt_tokens, dtype=np.uint32))
    return Exchange(prompt=text.array(prompt_tokens), output_tokens=output_tokens)


@in_jumping_loop
async def test_an_exchange_holds_times_ids_and_usage() -> None:
    async with running_fleet(SimulatorOptions(timing=TIMING, blocks=100)) as fleet:
        await asyncio.sleep(2.0)
        exchange, again = make_exchange(), make_exchange()

        assert await backend_of(fleet).perform(exchange) is None
        assert await backend_of(fleet).perform(again) is None

    times = (exchange.sent_s, exchange.answered_s, exchange.first_token_s, exchange.last_token_s, exchange.ended_s)
    assert times == pytest.approx((2.0, 2.0, 3.5, 3.7, 3.7))
    assert (exchange.prompt_tokens, exchange.completion_tokens, exchange.cached_tokens) == (100, 3, 0)
    assert exchange.whole_output_ids == again.whole_output_ids
    assert len(exchange.output_ids) == 3
    assert again.cached_tokens == 96


@in_jumping_loop
async def test_who_listens_hears_of_tokens_at_their_time() -> None:
    heard: list[tuple[float, int, int]] = []
    async with running_fleet(SimulatorOptions(timing=TIMING, blocks=100)) as fleet:
        exchange, loop = make_exchange(output_tokens=6), asyncio.get_running_loop()
        exchange.awaited_tokens = (2, 3)
        exchange.on_delivery = lambda tokens: heard.append((loop.time(), tokens, len(exchange.output_ids)))
        await backend_of(fleet).perform(exchange)

    assert [time_s for time_s, _, _ in heard] == pytest.approx([1.5, 1.6, 1.7, 2.0])
    assert [(tokens, ids) for _, tokens, ids in heard] == [(1, 1), (2, 2), (3, 3), (6, 6)]


@in_jumping_loop
async def test_who_is_cancelled_keeps_what_came_and_leaves_the_engine() -> None:
    async with running_fleet(SimulatorOptions(timing=TIMING, blocks=100)) as fleet:
        exchange = make_exchange(output_tokens=500)
        asking = asyncio.create_task(backend_of(fleet).perform(exchange))
        await asyncio.sleep(2.05)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

        assert len(exchange.output_ids) == 6
        assert (exchange.last_token_s, exchange.ended_s) == pytest.approx((2.0, 2.05))
        assert exchange.completion_tokens is None
        assert fleet.replicas[0].engine.scheduler.running == []


@in_jumping_loop
async def test_failures_have_the_names_they_have_over_http() -> None:
    async with running_fleet(SimulatorOptions(timing=TIMING, blocks=100)) as fleet:
        too_long = await backend_of(fleet).perform(make_exchange(1600, 1))
        too_late = await backend_of(fleet, timeout_s=1.0).perform(make_exchange())

    assert too_long == Failure(FailureKind.PROMPT_TOO_LONG, 400, "invalid_request_error", "context_length_exceeded")
    assert too_late == Failure(FailureKind.SILENT_STREAM, 200)
