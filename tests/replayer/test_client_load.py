from __future__ import annotations

import asyncio

import pytest
from event_loops import in_jumping_loop, jump

from rotoscope.replayer.client_load import ClientLoad, ClientMeter, client_findings, client_load
from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.metrics import Distribution, distribution


def all_at(value: float) -> Distribution | None:
    return distribution([value] * 100)


class Processor:
    """Processor time that a test uses up."""

    def __init__(self) -> None:
        self.used_s = 0.0

    def __call__(self) -> float:
        return self.used_s


def findings(load: ClientLoad, session_lag_s: Distribution | None = None) -> list[str]:
    return [*client_findings(load, session_lag_s=session_lag_s)]


@in_jumping_loop
async def test_a_loop_that_is_idle_is_not_late() -> None:
    meter = ClientMeter(LoopClock())

    async with meter.measuring():
        await asyncio.sleep(1.0)

    assert meter.loop_delay_s is not None
    assert meter.loop_delay_s.count in (49, 50)
    assert meter.loop_delay_s.max == pytest.approx(0.0, abs=1e-9)


@in_jumping_loop
async def test_time_in_which_the_loop_stands_still_counts_as_all_that_could_have_come_in_it() -> None:
    meter = ClientMeter(LoopClock())

    async with meter.measuring():
        await asyncio.sleep(0.5)
        jump(0.5)
        await asyncio.sleep(0.001)

    assert meter.loop_delay_s is not None
    assert meter.loop_delay_s.max == pytest.approx(0.48, abs=0.02)
    assert meter.loop_delay_s.mean == pytest.approx(0.125, abs=0.02)  # half the time, a quarter of a second on average


@in_jumping_loop
async def test_the_share_of_the_processor_is_over_the_time_that_was_measured() -> None:
    processor = Processor()
    meter = ClientMeter(LoopClock(), cpu_s=processor)
    processor.used_s = 5.0

    async with meter.measuring():
        processor.used_s += 3.0
        await asyncio.sleep(4.0)
    processor.used_s += 7.0

    assert meter.cpu_share == 0.75


@in_jumping_loop
async def test_without_measuring_nothing_is_known() -> None:
    meter = ClientMeter(LoopClock())

    assert (meter.loop_delay_s, meter.cpu_share) == (None, None)


def test_lags_of_20_ms_are_within_the_limit() -> None:
    load = client_load(session_lag_s=all_at(0.02), request_lag_s=all_at(0.02), meter=None)

    assert load.above_limit == ()
    assert not load.is_saturated
    assert findings(load) == []


def test_sessions_that_are_let_in_late_tell_of_a_saturated_client() -> None:
    load = client_load(session_lag_s=all_at(0.03), request_lag_s=None, meter=None)

    assert load.above_limit == ("session lag",)
    (said,) = findings(load, all_at(0.03))
    assert said == (
        "this client is saturated, so that times are not the server's alone: "
        "sessions were let in later than planned, 1 % by more than 30 ms, 30 ms at most"
    )


def test_a_few_late_ones_say_nothing_of_all() -> None:
    load = client_load(session_lag_s=None, request_lag_s=distribution([0.5] * 99), meter=None)

    assert load.above_limit == ()


def test_late_requests_alone_may_be_the_servers_doing() -> None:
    load = client_load(session_lag_s=all_at(0.001), request_lag_s=all_at(2.0), meter=None)

    assert load.above_limit == ("request lag",)
    assert not load.is_saturated
    (said,) = findings(load)
    assert said == (
        "requests were sent later than due, 1 % by more than 2,000 ms, 2,000 ms at most: "
        "this client kept up, so it may be that the server ends its responses late"
    )


@in_jumping_loop
async def test_a_loop_that_is_late_and_a_core_that_is_used_up_tell_of_a_saturated_client() -> None:
    processor = Processor()
    meter = ClientMeter(LoopClock(), cpu_s=processor)
    async with meter.measuring():
        processor.used_s = 3.8
        await asyncio.sleep(3.0)
        jump(1.0)
        await asyncio.sleep(0.0)

    load = client_load(session_lag_s=None, request_lag_s=all_at(0.5), meter=meter)

    assert load.above_limit == ("request lag", "loop delay", "cpu")
    assert load.is_saturated
    assert findings(load)[0].endswith("; it used 95 % of a processor core")
