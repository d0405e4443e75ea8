from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from event_loops import in_jumping_loop

from rotoscope.replayer.simulator.timing import Clock, JumpingClock, ScaledClock, Timing, clock_of_speed, speed_of
from rotoscope.traces.errors import UnusableInput


async def sleep_until(clock: Clock, moment_s: float) -> None:
    there = asyncio.Event()
    clock.call_at(moment_s, there.set)
    await there.wait()


TIMING = Timing(prefill_tokens_per_s=1000.0, decode_step_s=((1, 0.010), (4, 0.016), (8, 0.040)))


@pytest.mark.parametrize(
    ("batch", "seconds"), [(1, 0.010), (2, 0.012), (4, 0.016), (6, 0.028), (8, 0.040), (10, 0.052)]
)
def test_a_decode_step_lies_on_straight_lines_between_what_was_measured(batch: int, seconds: float) -> None:
    assert TIMING.step_s(contexts=[100] * batch) == pytest.approx(seconds)


def test_one_measured_batch_size_holds_for_all() -> None:
    timing = Timing(prefill_tokens_per_s=1.0, decode_step_s=((4, 0.016),))

    assert timing.step_s(contexts=[1]) == timing.step_s(contexts=[1] * 9) == 0.016


def test_prefill_costs_by_fresh_tokens_and_runs_beside_decoding() -> None:
    assert TIMING.step_s(prefill=[(5000, 100), (0, 200)]) == pytest.approx(0.3)
    assert TIMING.step_s(prefill=[(0, 100)], contexts=[1]) == pytest.approx(0.11)
    assert TIMING.step_s() == 0


def test_weights_are_read_once_for_prompts_and_decoding_sequences() -> None:
    timing = Timing(prefill_tokens_per_s=1000.0, prefill_step_s=0.020, decode_step_s=((1, 0.010), (8, 0.040)))

    assert timing.step_s(prefill=[(0, 100), (0, 50)]) == pytest.approx(0.020 + 0.15)
    assert timing.step_s(prefill=[(0, 100)], contexts=[5]) == pytest.approx(0.020 + 0.1)
    assert timing.step_s(prefill=[(0, 100)], contexts=[5] * 8) == pytest.approx(0.040 + 0.1)
    assert timing.step_s(contexts=[5]) == pytest.approx(0.010)


def test_a_fresh_token_looks_at_all_before_it() -> None:
    timing = Timing(prefill_tokens_per_s=1e12, decode_step_s=((1, 0.0),), prefill_attention_s=1.0)

    assert timing.step_s(prefill=[(10, 3)]) == pytest.approx(10 + 11 + 12)


def test_chunks_of_a_prompt_cost_what_it_costs_whole() -> None:
    timing = Timing(prefill_tokens_per_s=500.0, decode_step_s=((1, 0.0),), prefill_attention_s=0.001)
    chunks = [timing.step_s(prefill=[(0, 30)]), timing.step_s(prefill=[(30, 50)]), timing.step_s(prefill=[(80, 1)])]

    assert sum(chunks) == pytest.approx(timing.step_s(prefill=[(0, 81)]))


def test_what_comes_back_from_the_host_tier_takes_its_time_beside_the_rest() -> None:
    timing = Timing(prefill_tokens_per_s=100.0, decode_step_s=((1, 0.5),), onboard_token_s=0.001)

    assert timing.step_s(prefill=[(30, 10)], contexts=[1], onboarded_tokens=30) == pytest.approx(0.1 + 0.5 + 0.03)


def test_a_decoding_sequence_looks_at_its_context() -> None:
    timing = Timing(prefill_tokens_per_s=1.0, decode_step_s=((1, 1.0), (2, 1.5)), decode_context_s=0.001)

    assert timing.step_s(contexts=[100, 400]) == pytest.approx(2.0)


def test_decode_steps_in_a_row_last_what_each_lasts_alone() -> None:
    timing, contexts = replace(TIMING, decode_context_s=1.93e-06), [100, 4000, 37]

    together = timing.decode_steps_s(50, sequences=3, context_tokens=sum(contexts))

    singly = [timing.step_s(contexts=[tokens + step for tokens in contexts]) for step in range(50)]
    assert together.tolist() == singly


@in_jumping_loop
async def test_scaled_time_passes_so_many_times_as_fast() -> None:
    loop = asyncio.get_running_loop()
    clock = ScaledClock(20.0, monotonic=loop.time)

    await sleep_until(clock, 10.0)

    assert clock.now() == pytest.approx(10.0)
    assert loop.time() == pytest.approx(0.5)


@in_jumping_loop
async def test_what_is_past_is_not_waited_for() -> None:
    loop = asyncio.get_running_loop()
    clock = ScaledClock(1.0, monotonic=loop.time)
    await asyncio.sleep(3.0)

    await sleep_until(clock, 2.0)

    assert loop.time() == pytest.approx(3.0)


@in_jumping_loop
async def test_jumping_takes_no_time() -> None:
    clock = JumpingClock()

    await sleep_until(clock, 1000.0)
    await sleep_until(clock, 10.0)

    assert clock.now() == 1000.0
    assert asyncio.get_running_loop().time() == 0.0


@pytest.mark.parametrize("speed", [0.0, float("inf")])
def test_speed_without_waiting_jumps(speed: float) -> None:
    assert isinstance(clock_of_speed(speed), JumpingClock)


@pytest.mark.parametrize("speed", [-1.0, float("nan")])
def test_speed_that_is_no_factor_is_refused(speed: float) -> None:
    with pytest.raises(UnusableInput, match="speed"):
        clock_of_speed(speed)


def test_speed_is_a_number_or_max() -> None:
    assert speed_of("2.5") == 2.5
    assert speed_of("max") == 0.0
    with pytest.raises(UnusableInput, match="'fast' is neither a number nor 'max'"):
        speed_of("fast")
