from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_worlds import World, worlds

from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.replayer.simulator.tokenizer import TokenIds
from rotoscope.traces.analysis.profiles import PROFILES, profile_named
from rotoscope.traces.analysis.realised import SentStream, realised_hits

TIMING = Timing(
    prefill_tokens_per_s=1000.0, decode_step_s=((1, 0.010), (2, 0.020)), request_overhead_s=0.0, step_tokens=100
)


def make_scheduler(
    *, blocks: int = 1000, profile: str = "token", max_batch: int = 8, timing: Timing = TIMING
) -> Scheduler:
    return Scheduler(BlockCache(blocks), timing, profile_named(profile), max_batch=max_batch)


def ids(first: int, count: int) -> TokenIds:
    return np.arange(first, first + count, dtype=np.uint32)


def make_generation(prompt: TokenIds | int = 50, output: TokenIds | int = 3, *, first: int = 0) -> Generation:
    prompt = ids(first, prompt) if isinstance(prompt, int) else prompt
    return Generation(prompt, ids(first + 10_000, output) if isinstance(output, int) else output)


def run(scheduler: Scheduler, now_s: float = 0.0) -> float:
    """Take steps until there is nothing left to do; return when that is."""
    while True:
        stretch = scheduler.next_stretch(now_s)
        if stretch is not None:
            now_s = stretch.end_s
            scheduler.complete()
        elif (ready_s := scheduler.next_ready_s()) is not None:
            assert ready_s > now_s, "a call waits although nobody runs"
            now_s = ready_s
        else:
            return now_s


def take(scheduler: Scheduler, now_s: float = 0.0) -> float:
    """Take what is next and return when it is done."""
    stretch = scheduler.next_stretch(now_s)
    assert stretch is not None
    scheduler.complete()
    return stretch.end_s


def test_a_call_alone_is_prefilled_and_then_decodes() -> None:
    scheduler, call = make_scheduler(), make_generation(50, 3)
    scheduler.submit(call, 0.0)

    run(scheduler)

    assert call.token_times_s == pytest.approx([0.050, 0.060, 0.070])


def test_overhead_comes_before_admission() -> None:
    scheduler = make_scheduler(timing=replace(TIMING, request_overhead_s=0.5))
    call = make_generation(50, 1)
    scheduler.submit(call, 1.0)

    run(scheduler, 1.0)

    assert call.admitted_s == pytest.approx(1.5)
    assert call.token_times_s == pytest.approx([1.55])


def test_a_cached_prefix_takes_no_time() -> None:
    scheduler, again = make_scheduler(), make_generation(60, 1)
    scheduler.submit(make_generation(50, 1), 0.0)
    now_s = run(scheduler)
    scheduler.submit(again, now_s)

    assert run(scheduler, now_s) - now_s == pytest.approx(0.010)
    assert again.cached_tokens == 50


def test_a_prefix_in_the_host_tier_takes_its_time_to_come_back_and_is_counted_apart() -> None:
    timing = replace(TIMING, onboard_token_s=0.0001)
    scheduler = Scheduler(BlockCache(70, HostTier(1000)), timing, profile_named("token"), max_batch=8)
    now_s = 0.0
    for call in (make_generation(50, 1), make_generation(40, 1, first=500)):
        scheduler.submit(call, now_s)
        now_s = run(scheduler, now_s)
    again = make_generation(60, 1)
    scheduler.submit(again, now_s)

    # of 50 cached tokens the first 29 stayed on the device, 21 made way for 40 + 1 tokens
    assert run(scheduler, now_s) - now_s == pytest.approx(0.010 + 21 * 0.0001)
    assert again.cached_tokens == 50
    assert (scheduler.counts.hit_tokens, scheduler.counts.host_tokens) == (29, 21)


def test_only_the_step_that_admits_a_call_waits_for_its_prefix() -> None:
    timing = replace(TIMING, onboard_token_s=1.0)
    scheduler = Scheduler(BlockCache(50, HostTier(1000)), timing, profile_named("token"), max_batch=8)
    for call in (make_generation(40, 1), make_generation(40, 1, first=500)):
        scheduler.submit(call, 0.0)
        run(scheduler)
    again = make_generation(40, 3)
    scheduler.submit(again, 0.0)

    run(scheduler)

    first, *rest = again.token_times_s
    assert first > 30.0
    assert [time_s - first for time_s in rest] == pytest.approx([0.010, 0.020])


def test_calls_decode_together_in_slower_steps() -> None:
    scheduler, calls = make_scheduler(), [make_generation(10, 3), make_generation(10, 3, first=500)]
    for call in calls:
        scheduler.submit(call, 0.0)

    run(scheduler)

    assert calls[0].token_times_s == calls[1].token_times_s == pytest.approx([0.020, 0.040, 0.060])


def test_a_long_prompt_takes_several_steps_between_which_others_decode() -> None:
    scheduler, short, long = make_scheduler(), make_generation(10, 4), make_generation(250, 1, first=500)
    scheduler.submit(short, 0.0)
    scheduler.submit(long, 0.0)

    run(scheduler)

    # 10 + 90 prompt tokens; then 99 and the last 61 beside the decoding call
    assert short.token_times_s == pytest.approx([0.100, 0.209, 0.280, 0.290])
    assert long.token_times_s == pytest.approx([0.280])


def test_who_finds_the_batch_full_waits_in_order_of_arrival() -> None:
    scheduler = make_scheduler(max_batch=1)
    calls = [make_generation(10, 2, first=first) for first in (0, 500, 900)]
    for call in calls:
        scheduler.submit(call, 0.0)

    run(scheduler)

    assert [call.admitted_s for call in calls] == pytest.approx([0.0, 0.020, 0.040])


def test_who_finds_no_blocks_waits_and_is_not_overtaken() -> None:
    scheduler = make_scheduler(blocks=100)
    first, large, small = make_generation(60, 2), make_generation(70, 2, first=500), make_generation(5, 2, first=900)
    for call in (first, large, small):
        scheduler.submit(call, 0.0)

    run(scheduler)

    assert large.admitted_s == pytest.approx(first.token_times_s[-1])
    assert small.admitted_s >= large.admitted_s


@pytest.mark.parametrize(
    ("profile", "expected"),
    [("token", 62), ("prompt-only", 60), ("vllm", 48), ("trtllm", 62), ("trtllm-whole-blocks", 32), ("sglang", 62)],
)
def test_profile_says_what_of_a_call_is_reused(profile: str, expected: int) -> None:
    scheduler, first = make_scheduler(profile=profile), make_generation(60, 3)
    scheduler.submit(first, 0.0)
    run(scheduler)
    again = make_generation(np.concatenate([first.prompt_ids, first.output_ids, ids(5000, 7)]))
    scheduler.submit(again, 0.0)
    run(scheduler)

    assert again.cached_tokens == expected


@given(worlds(domains=1, chance=True), st.sampled_from(sorted(PROFILES)), st.integers(1, 3))
def test_one_call_after_another_hits_the_realised_optimum(world: World, profile: str, repeat: int) -> None:
    scheduler = Scheduler(BlockCache(10_000), TIMING, profile_named(profile, block_size=repeat), max_batch=4)
    calls = [
        Generation(np.array(call.prompt, np.uint32), np.array(call.output or (9,), np.uint32)) for call in world.calls
    ]

    for call in calls:
        scheduler.submit(call, 0.0)
        run(scheduler)

    streams = [
        SentStream(
            of=None,
            shared=0,
            tail=np.concatenate([call.prompt_ids, call.output_ids]),
            prompt_tokens=len(call.prompt_ids),
            sent_s=float(rank),
            first_token_s=rank + 0.5,
        )
        for rank, call in enumerate(calls)
    ]
    assert [call.cached_tokens for call in calls] == realised_hits(streams, scheduler.profile)


def test_a_prompt_can_be_found_while_its_call_still_decodes() -> None:
    scheduler, first, second = make_scheduler(), make_generation(50, 30), make_generation(60, 1)
    scheduler.submit(first, 0.0)
    now_s = take(scheduler)
    scheduler.submit(second, now_s)

    scheduler.next_stretch(now_s)

    assert second.cached_tokens == 50


def test_two_equal_prompts_at_once_are_both_computed() -> None:
    scheduler, calls = make_scheduler(), [make_generation(30, 1), make_generation(30, 1)]
    for call in calls:
        scheduler.submit(call, 0.0)

    run(scheduler)

    assert [call.cached_tokens for call in calls] == [0, 0]


def test_cancelling_frees_slot_and_blocks_at_once_and_keeps_what_was_computed() -> None:
    scheduler, call = make_scheduler(max_batch=1), make_generation(150, 5)
    scheduler.submit(call, 0.0)
    now_s = take(scheduler)
    scheduler.next_stretch(now_s)

    scheduler.cancel(call, now_s + 0.01)

    assert scheduler.running == []
    assert scheduler.cache.held == 0
    assert scheduler.complete() == []
    assert call.generated == 0
    assert scheduler.counts.ended["abort"] == 1
    again = make_generation(150, 1)
    scheduler.submit(again, 0.2)
    run(scheduler, 0.2)
    assert again.cached_tokens == 100


def test_cancelling_in_the_queue_leaves_it() -> None:
    scheduler, first, second = make_scheduler(max_batch=1), make_generation(), make_generation(first=500)
    scheduler.submit(first, 0.0)
    scheduler.submit(second, 0.0)

    scheduler.cancel(second, 0.0)

    run(scheduler)
    assert second.generated == 0
    assert list(scheduler.waiting) == []


def test_cancelling_what_has_finished_does_nothing() -> None:
    scheduler, call = make_scheduler(), make_generation()
    scheduler.submit(call, 0.0)
    run(scheduler)

    scheduler.cancel(call, 1.0)

    assert scheduler.counts.ended == {"stop": 1, "length": 0, "abort": 0}


def test_what_is_left_to_compute_and_in_use_is_that_of_running_and_waiting_calls() -> None:
    scheduler = make_scheduler(max_batch=1, profile="vllm")
    scheduler.submit(make_generation(64, 100), 0.0)
    take(scheduler)
    assert (scheduler.tokens_to_compute(), scheduler.blocks_in_use()) == (0, 5)  # 65 tokens, not the 164 reserved

    scheduler.submit(make_generation(100, 100), 0.0)  # the first 64 of its tokens are there
    scheduler.submit(make_generation(100, 100, first=500), 0.0)

    assert scheduler.tokens_to_compute() == 36 + 100
    assert scheduler.blocks_in_use() == 5 + 7 + 7


def test_what_a_call_would_find_is_what_it_finds() -> None:
    scheduler = Scheduler(BlockCache(10, HostTier(100)), TIMING, profile_named("vllm"), max_batch=8)
    for call in (make_generation(100, 1), make_generation(90, 1, first=500)):
        scheduler.submit(call, 0.0)
        run(scheduler)
    again = make_generation(100, 1)

    found, held = scheduler.found(again)

    assert held == 0
    scheduler.submit(again, 0.0)
    run(scheduler)
    assert again.cached_tokens == found * 16 == 96
    assert scheduler.counts.host_tokens > 0


def test_of_what_a_call_would_find_the_blocks_of_running_calls_are_told() -> None:
    scheduler = make_scheduler(profile="vllm")
    scheduler.submit(make_generation(100, 1), 0.0)
    run(scheduler)
    scheduler.submit(make_generation(50, 5), 0.0)
    scheduler.next_stretch(0.0)

    assert scheduler.found(make_generation(100, 1)) == (6, 3)


@given(st.data(), worlds(domains=1, chance=True), st.integers(1, 3), st.integers(5, 40), st.integers(1, 3))
def test_whatever_comes_and_goes_every_call_ends_and_nothing_stays_held(
    data: st.DataObject, world: World, block_size: int, blocks: int, max_batch: int
) -> None:
    timing = replace(TIMING, step_tokens=data.draw(st.integers(1, 8)))
    scheduler = Scheduler(BlockCache(blocks), timing, profile_named("vllm", block_size=block_size), max_batch=max_batch)
    calls = []
    for call in world.calls:
        output = np.array(call.output or (7,), np.uint32)
        if scheduler.blocks_needed(len(call.prompt) + len(output)) <= blocks:
            calls.append(Generation(np.array(call.prompt, np.uint32), output))
            scheduler.submit(calls[-1], 0.0)
        stretch = scheduler.next_stretch(0.0) if data.draw(st.booleans()) else None
        decoding = sum(each.decoding for each in scheduler.running)
        if calls and data.draw(st.integers(0, 5)) == 0:
            scheduler.cancel(data.draw(st.sampled_from(calls)), 0.0)
        if stretch is not None:
            assert len(scheduler.running) <= max_batch
            assert sum(fresh for _, fresh in stretch.prefill) + decoding <= max(timing.step_tokens, decoding + 1)
            scheduler.complete()

    run(scheduler)

    assert all(call.finished for call in calls)
    assert all(call.ending == "abort" or call.generated == len(call.output_ids) for call in calls)
    assert scheduler.cache.held == 0
    assert scheduler.counts.generated_tokens == sum(call.generated for call in calls)
