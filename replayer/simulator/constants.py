"""The constants of the timing model, as benchmarks/fit_simulator.py printed them.

Medians of 11 rounds on a machine that was busy with other work: the interquartile range was 30 to 100 % of most medians,
so the constants may be 1.5 times what an idle machine gives. Modelled times were within 24 % of the medians for fresh
prompts of 256 to 8192 tokens (within 12 % but for one), and 29 % above for 256 tokens behind 4096 cached ones.
"""

from __future__ import annotations

from rotoscope.replayer.simulator.timing import Timing

LLAMA_SERVER_TINY = Timing(
    prefill_tokens_per_s=4352.0,
    prefill_attention_s=3.67e-07,
    decode_step_s=((1, 0.001914), (2, 0.003792), (4, 0.006555), (8, 0.012780), (16, 0.019682)),
    decode_context_s=2.54e-06,
    request_overhead_s=0.005730,
    step_tokens=2048,
    source=(
        "measured 2026-11-29 on llama.cpp's llama-server 10434, one thread of a shared two-core x86-64 virtual machine, "
        "random Llama of 4 layers and 256 dimensions in F16, without flash attention"
    ),
)
"""`step_tokens` is the server's default batch size."""
