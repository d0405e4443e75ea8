"""Print the simulator's constants for a server on GPUs, fitted to times that AIConfigurator gives, and what they leave out.

AIConfigurator (NVIDIA, Apache-2.0) adds up the kernels of a model's step from times that were measured on the GPUs; its
`SILICON` mode takes measured kernels only. Asked are

1. decode: one step of 1 to 256 sequences, each behind 1,024 to 32,768 tokens;
2. prefill: prompts of 256 to 16,384 fresh tokens behind none to 16,384 cached ones.

The constants are fitted by least squares of the relative error, none below zero. Not part of it are the host's share
of a step, sampling, the network and the scheduler: real servers are slower, by what nobody has measured here.

    scripts/programs.sh aiconfigurator .venv-aiconfigurator
    .venv-aiconfigurator/bin/python benchmarks/fit_gpu_timing.py
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

MODEL, SYSTEM, GPUS = "Qwen/Qwen3-235B-A22B-FP8", "gb200", 4
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (1024, 4096, 8192, 16384, 32768)
FRESH = (256, 512, 1024, 2048, 4096, 8192, 16384)
CACHED = (0, 4096, 16384)

Grid: TypeAlias = Mapping[tuple[int, int], float]


def decode_times_s() -> Grid:
    """Return the seconds of a decode step by batch size and context."""
    return {
        (batch, context): _estimated("static_gen", batch_size=batch, isl=context).tpot / 1000
        for batch in BATCHES
        for context in CONTEXTS
    }


def prefill_times_s() -> Grid:
    """Return the seconds of a step that computes one prompt, by its fresh and its cached tokens."""
    return {
        (fresh, cached): _estimated("static_ctx", batch_size=1, isl=fresh + cached, prefix=cached).ttft / 1000
        for fresh in FRESH
        for cached in CACHED
    }


def _estimated(mode: str, **shape: int) -> Any:
    from aiconfigurator.cli.api import cli_estimate  # type: ignore[import-not-found]  # in an environment of its own

    return cli_estimate(MODEL, SYSTEM, mode=mode, osl=2, tp_size=GPUS, moe_tp_size=1, moe_ep_size=GPUS, **shape)


def fit_decode(times_s: Grid) -> tuple[dict[int, float], float]:
    """Return the seconds of a step by batch size, and those for a sequence to attend to one token of its context."""
    rows = [[float(batch == one) for one in BATCHES] + [batch * context] for batch, context in times_s]
    *steps_s, context_s = _fit(rows, list(times_s.values()))
    return dict(zip(BATCHES, steps_s, strict=True)), context_s


def fit_prefill(times_s: Grid) -> tuple[float, float, float]:
    """Return the seconds of a step whatever it computes, of a fresh token, and for it to attend to one before it."""
    rows = [[1.0, fresh, pairs(fresh, cached)] for fresh, cached in times_s]
    step_s, token_s, attention_s = _fit(rows, list(times_s.values()))
    return step_s, token_s, attention_s


def pairs(fresh: int, cached: int) -> float:
    """Return how many pairs of a fresh token and one before it there are."""
    return fresh * cached + fresh * (fresh - 1) / 2


def _fit(rows: list[list[float]], seconds: list[float]) -> list[float]:
    terms = np.array(rows) / np.array(seconds)[:, None]
    scale = terms.max(axis=0)
    found = np.linalg.lstsq(terms / scale, np.ones(len(rows)), rcond=None)[0] / scale
    if (found < 0).any():
        raise SystemExit("a constant would be below zero: the model does not fit these times")
    return [float(one) for one in found]


def report(decode: Grid, prefill: Grid) -> None:
    """Print the arguments of the Timing to commit, then given and modelled times."""
    steps_s, context_s = fit_decode(decode)
    step_s, token_s, attention_s = fit_prefill(prefill)
    points = ", ".join(f"({batch}, {seconds:.6f})" for batch, seconds in steps_s.items())
    print(f"prefill_tokens_per_s={1 / token_s:.0f},")
    print(f"prefill_step_s={step_s:.6f},")
    print(f"prefill_attention_s={attention_s:.3g},")
    print(f"decode_step_s=({points}),")
    print(f"decode_context_s={context_s:.3g},")
    print(f"\n{'':>24} {'given_ms':>10} {'modelled_ms':>11} {'residual':>9}")
    for (batch, context), given_s in decode.items():
        _row(f"decode {batch} at {context}", given_s, steps_s[batch] + context_s * batch * context)
    for (fresh, cached), given_s in prefill.items():
        _row(f"prefill {fresh} after {cached}", given_s, step_s + token_s * fresh + attention_s * pairs(fresh, cached))


def _row(name: str, given_s: float, modelled_s: float) -> None:
    print(f"{name:>24} {given_s * 1e3:10.2f} {modelled_s * 1e3:11.2f} {modelled_s / given_s - 1:+9.1%}")


def main() -> None:
    """Ask, fit and print."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    report(decode_times_s(), prefill_times_s())


if __name__ == "__main__":
    main()
