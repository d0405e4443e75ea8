"""The constants of the timing model, as benchmarks/fit_simulator.py printed them.

Medians of 5 rounds in CPU time of the engine's process, because the machine was busy with other work; the interquartile
range was 10 to 45 % of the medians. Modelled times are within 8 % of the medians for fresh prompts of 256 to 4096 tokens,
and within 1 % for 256 tokens behind 4096 cached ones, which the fit had not seen.

The onboard time is assumed: that engine has no host tier. It bears the relation to computing a token anew that published
figures give for Llama-3.1-8B in BF16 on an H100: 131,072 bytes of KV a token over PCIe 5 x16 at 50 GB/s take 2.6
microseconds, 2 * 8.03e9 operations a token at half of 989 TFLOPS take 32.5, so loading is 8 % of computing.
"""

from __future__ import annotations

from rotoscope.replayer.simulator.timing import Timing

_PREFILL_TOKENS_PER_S = 5692.0
_LOADING_PER_COMPUTING = (131_072 / 50e9) / (2 * 8.03e9 / (0.5 * 989e12))

LLAMA_SERVER_TINY = Timing(
    prefill_tokens_per_s=_PREFILL_TOKENS_PER_S,
    prefill_attention_s=3.55e-07,
    decode_step_s=((1, 0.003702), (2, 0.006181), (4, 0.008711), (8, 0.017263), (16, 0.023728)),
    decode_context_s=1.93e-06,
    request_overhead_s=0.001798,
    onboard_token_s=_LOADING_PER_COMPUTING / _PREFILL_TOKENS_PER_S,
    step_tokens=2048,
    source=(
        "measured 2026-11-29 on llama.cpp's llama-server 10434, one thread of a two-core x86-64 virtual machine, "
        "random Llama of 4 layers and 256 dimensions in F16, without flash attention"
    ),
)
"""`step_tokens` is the server's default batch size."""
