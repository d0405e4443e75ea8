"""The constants of the timing model, by the names of what they stand for; fitted once and then left alone.

`LLAMA_SERVER_TINY` is what benchmarks/fit_simulator.py printed: medians of 5 rounds in CPU time of the engine's process,
because the machine was busy with other work; the interquartile range was 10 to 45 % of the medians. Modelled times are
within 8 % of the medians for fresh prompts of 256 to 4096 tokens, and within 1 % for 256 tokens behind 4096 cached ones,
which the fit had not seen. Its onboard time is assumed: that engine has no host tier. It bears the relation to computing
a token anew that published figures give for Llama-3.1-8B in BF16 on an H100: 131,072 bytes of KV a token over PCIe 5 x16
at 50 GB/s take 2.6 microseconds, 2 * 8.03e9 operations a token at half of 989 TFLOPS take 32.5, so loading is 8 % of
computing.

`QWEN3_235B_GB200` is what benchmarks/fit_gpu_timing.py printed: steps of Qwen3-235B-A22B in FP8 on four GB200 with tensor
and expert parallelism of four, which NVIDIA's AIConfigurator 0.12.0 adds up from kernels of TensorRT-LLM 1.3.0rc20 that
were measured there. Modelled times are within 5.2 % of all 66 for 1 to 256 sequences behind 1,024 to 32,768 tokens and
for 256 to 16,384 fresh tokens behind none to 16,384 cached ones. The host's share of a step is in none of them. Its
onboard time is assumed too: 94 layers, 4 key-value heads of 128 dimensions and one byte a number are 96,256 bytes a
token, and two Grace processors move 450 GB/s each to their GPUs (NVIDIA's data sheet: 900 GB/s in both directions), taken
at half.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rotoscope.replayer.simulator.timing import Timing
from rotoscope.traces.errors import UnusableInput

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

QWEN3_235B_GB200 = Timing(
    prefill_tokens_per_s=65062.0,
    prefill_step_s=0.020398,
    prefill_attention_s=4.63e-10,
    decode_step_s=(
        (1, 0.008414),
        (2, 0.009747),
        (4, 0.010843),
        (8, 0.011749),
        (16, 0.013033),
        (32, 0.016237),
        (64, 0.016832),
        (128, 0.018689),
        (256, 0.020532),
    ),
    decode_context_s=3.84e-09,
    onboard_token_s=96_256 / (0.5 * 2 * 450e9),
    step_tokens=8192,
    source=(
        "AIConfigurator 0.12.0 from measured kernels of TensorRT-LLM 1.3.0rc20: Qwen3-235B-A22B in FP8 on four GB200, "
        "tensor and expert parallelism of four"
    ),
)
"""`step_tokens` is the default of TensorRT-LLM's `max_num_tokens`."""

TIMINGS: Mapping[str, Timing] = MappingProxyType(
    {"llama-server-tiny": LLAMA_SERVER_TINY, "qwen3-235b-gb200": QWEN3_235B_GB200}
)


def timing_named(name: str) -> Timing:
    """Return constants by what they stand for."""
    if name not in TIMINGS:
        raise UnusableInput(f"unknown timing {name!r}: there are {', '.join(TIMINGS)}")
    return TIMINGS[name]
