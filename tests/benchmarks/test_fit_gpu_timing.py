from __future__ import annotations

import pytest

from benchmarks.fit_gpu_timing import BATCHES, CACHED, CONTEXTS, FRESH, fit_decode, fit_prefill, pairs


def test_times_that_follow_the_model_give_its_constants_back() -> None:
    decode = {
        (batch, context): 0.01 + 1e-4 * batch + 4e-9 * batch * context for batch in BATCHES for context in CONTEXTS
    }
    prefill = {
        (fresh, cached): 0.02 + fresh / 6e4 + 5e-10 * pairs(fresh, cached) for fresh in FRESH for cached in CACHED
    }

    steps_s, context_s = fit_decode(decode)
    step_s, token_s, attention_s = fit_prefill(prefill)

    assert steps_s == pytest.approx({batch: 0.01 + 1e-4 * batch for batch in BATCHES})
    assert (context_s, step_s, 1 / token_s, attention_s) == pytest.approx((4e-9, 0.02, 6e4, 5e-10))


def test_times_that_fall_with_what_is_computed_are_refused() -> None:
    with pytest.raises(SystemExit, match="below zero"):
        fit_prefill({(fresh, cached): 1.0 / fresh for fresh in FRESH for cached in CACHED})
