from __future__ import annotations

import pytest

from rotoscope.replayer.simulator.constants import LLAMA_SERVER_TINY, QWEN3_235B_GB200, TIMINGS, timing_named
from rotoscope.traces.errors import UnusableInput


def test_constants_say_where_they_come_from() -> None:
    for timing in TIMINGS.values():
        assert "measured" in timing.source


def test_constants_have_names() -> None:
    assert timing_named("qwen3-235b-gb200") is QWEN3_235B_GB200
    with pytest.raises(UnusableInput, match="unknown timing 'h100': there are llama-server-tiny, qwen3-235b-gb200"):
        timing_named("h100")


def test_loading_a_token_is_assumed_to_take_a_small_part_of_computing_it() -> None:
    share = LLAMA_SERVER_TINY.onboard_token_s * LLAMA_SERVER_TINY.prefill_tokens_per_s

    assert share == pytest.approx(0.081, abs=0.001)


@pytest.mark.parametrize(
    ("sequences", "context", "given_s"),
    [(1, 32768, 0.00900), (8, 8192, 0.01219), (32, 1024, 0.01652), (64, 16384, 0.02078), (256, 32768, 0.05146)],
)
def test_decode_steps_are_near_those_given_of_the_gpus(sequences: int, context: int, given_s: float) -> None:
    assert QWEN3_235B_GB200.step_s(contexts=[context] * sequences) == pytest.approx(given_s, rel=0.055)


@pytest.mark.parametrize(
    ("fresh", "cached", "given_s"),
    [(256, 16384, 0.02534), (1024, 0, 0.03837), (8192, 4096, 0.17448), (16384, 0, 0.32362)],
)
def test_prompts_are_near_those_given_of_the_gpus(fresh: int, cached: int, given_s: float) -> None:
    assert QWEN3_235B_GB200.step_s(prefill=[(cached, fresh)]) == pytest.approx(given_s, rel=0.055)
