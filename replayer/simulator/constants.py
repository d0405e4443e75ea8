"""The constants of the timing model, as benchmarks/fit_simulator.py printed them."""

from __future__ import annotations

from rotoscope.replayer.simulator.timing import Timing

LLAMA_SERVER_TINY = Timing(
    prefill_tokens_per_s=3000.0,
    decode_step_s=((1, 0.003), (16, 0.012)),
    request_overhead_s=0.002,
    step_tokens=2048,
    source="placeholder until the fit has run",
)
