"""Measure a real server and print the constants of the simulator's timing model, with what they leave unexplained.

Everything is timed at the client, on response streams, one request at a time where not said otherwise:

1. decode: time between tokens while 1, 2, 4, ... streams decode together, behind short prompts; and of one stream behind
   a long prompt, which gives the share of the context;
2. overhead: time to first token of a prompt repeated at once (all but one token cached), less one decode step;
3. prefill: time to first token of fresh random prompts of growing length, less the overhead, fitted by least squares of
   the relative error to tokens / rate + attention * tokens * (tokens - 1) / 2;
4. as a check that the fit has not seen: a short continuation of a long cached prompt.

The repetitions go round all measurements, so that a busy machine disturbs all of them alike; medians are fitted, and the
interquartile range is printed as the spread. With --pid the clock is the CPU time of the server's process instead of real
time: the same for an engine of one thread on an idle machine, and much less disturbed on a busy one.

The server must take token ids at /v1/completions and reuse prefixes. The committed constants came from llama.cpp's
llama-server, one thread, on the random four-layer model of 256 dimensions; one slot's context must hold the longest prompt:

    llama-server -m model.gguf -t 1 -fa off -np 16 --no-kv-unified -c 147456 --cache-ram 0 --no-ui --port 8091
    python benchmarks/fit_simulator.py --url http://127.0.0.1:8091 --pid $(pidof llama-server)
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import aiohttp
import numpy as np
import orjson

PROMPT_TOKENS = (256, 512, 1024, 2048, 4096)
BATCHES = (1, 2, 4, 8, 16)
SHORT_PROMPT_TOKENS = 64
DECODE_TOKENS = 96
LONG_PROMPT_TOKENS = 4096
CONTINUATION_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Sample:
    """Repetitions of one measurement, in seconds."""

    median_s: float
    spread_s: float
    """Interquartile range."""

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Sample:
        """Summarise repetitions."""
        low, _, high = statistics.quantiles(seconds, n=4)
        return cls(statistics.median(seconds), high - low)


class Probe:
    """Sends prompts of random ids and notes when each piece of the answer came."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, clock: Callable[[], float], *, vocabulary: range, seed: int
    ) -> None:
        self._session = session
        self._clock = clock
        self._url = url
        self._vocabulary = vocabulary
        self._random = np.random.default_rng(seed)

    def fresh_prompt(self, tokens: int) -> list[int]:
        """Return ids that no earlier prompt began with."""
        ids: list[int] = self._random.integers(self._vocabulary.start, self._vocabulary.stop, tokens).tolist()
        return ids

    async def times_s(self, prompt: list[int], max_tokens: int) -> list[float]:
        """Return seconds on the clock: of sending, then of each event with text."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "temperature": 0}
        data = orjson.dumps(body)
        times = [self._clock()]
        async with self._session.post(f"{self._url}/v1/completions", data=data) as response:
            response.raise_for_status()
            async for line in response.content:
                if line.startswith(b"data: {") and orjson.loads(line[6:])["choices"]:
                    times.append(self._clock())
        return times


async def decode_step_s(probe: Probe, streams: int, prompt_tokens: int) -> float:
    """Return the mean time between tokens while all of `streams` were decoding."""
    prompts = [probe.fresh_prompt(prompt_tokens) for _ in range(streams)]
    answers = await asyncio.gather(*(probe.times_s(prompt, DECODE_TOKENS) for prompt in prompts))
    together, over = max(times[1] for times in answers), min(times[-1] for times in answers)
    inside = [[moment for moment in times[1:] if together <= moment <= over] for times in answers]
    return statistics.mean((moments[-1] - moments[0]) / (len(moments) - 1) for moments in inside)


async def first_token_s(probe: Probe, tokens: int, *, cached: int) -> float:
    """Return the time to first token of a prompt of which `cached` tokens were sent just before."""
    prompt = probe.fresh_prompt(tokens)
    if cached:
        await probe.times_s(prompt[:cached], 1)
    times = await probe.times_s(prompt, 1)
    return times[1] - times[0]


@dataclass(slots=True)
class Measured:
    """Seconds of each repetition."""

    decode: dict[int, list[float]] = field(default_factory=lambda: {batch: [] for batch in BATCHES})
    """By streams."""
    long_decode: list[float] = field(default_factory=list)
    repeated: list[float] = field(default_factory=list)
    prefill: dict[int, list[float]] = field(default_factory=lambda: {tokens: [] for tokens in PROMPT_TOKENS})
    """By fresh tokens."""
    continued: list[float] = field(default_factory=list)

    async def add_round(self, probe: Probe) -> None:
        """Take each measurement once."""
        for batch, seconds in self.decode.items():
            seconds.append(await decode_step_s(probe, batch, SHORT_PROMPT_TOKENS))
        self.long_decode.append(await decode_step_s(probe, 1, LONG_PROMPT_TOKENS))
        self.repeated.append(await first_token_s(probe, 512, cached=512))
        for tokens, seconds in self.prefill.items():
            seconds.append(await first_token_s(probe, tokens, cached=0))
        total = LONG_PROMPT_TOKENS + CONTINUATION_TOKENS
        self.continued.append(await first_token_s(probe, total, cached=LONG_PROMPT_TOKENS))


@dataclass(frozen=True, slots=True)
class Fit:
    """The constants, all in seconds."""

    overhead_s: float
    token_s: float
    """A fresh token, without attention."""
    attention_s: float
    """A fresh token attending to one token before it."""
    decode_s: dict[int, float]
    """A step by number of sequences, behind no context."""
    context_s: float
    """A decoding sequence attending to one token of its context."""

    def first_token_s(self, tokens: int, cached: int = 0) -> float:
        """Return the modelled time to first token."""
        fresh = tokens - cached
        return self.overhead_s + fresh * self.token_s + self.attention_s * fresh * (tokens + cached - 1) / 2

    def step_s(self, batch: int, context_tokens: float) -> float:
        """Return the modelled time of a decode step, each sequence behind so many tokens."""
        return self.decode_s[batch] + self.context_s * context_tokens * batch


def fit(measured: Measured) -> Fit:
    """Return the constants for the medians."""
    short, long = (tokens + DECODE_TOKENS / 2 for tokens in (SHORT_PROMPT_TOKENS, LONG_PROMPT_TOKENS))
    steps = {batch: Sample.of(seconds).median_s for batch, seconds in measured.decode.items()}
    context_s = (Sample.of(measured.long_decode).median_s - steps[1]) / (long - short)
    overhead_s = max(Sample.of(measured.repeated).median_s - steps[1], 0.0)
    token_s, attention_s = _fit_prefill(measured, overhead_s)
    decode_s = {batch: step_s - context_s * short * batch for batch, step_s in steps.items()}
    return Fit(overhead_s, token_s, attention_s, decode_s, context_s)


def _fit_prefill(measured: Measured, overhead_s: float) -> tuple[float, float]:
    tokens = np.array(list(measured.prefill), float)
    seconds = np.array([Sample.of(times).median_s for times in measured.prefill.values()])
    terms = np.stack([tokens, tokens * (tokens - 1) / 2], axis=1) / seconds[:, None]
    token_s, attention_s = np.linalg.lstsq(terms, (seconds - overhead_s) / seconds, rcond=None)[0]
    return float(token_s), float(attention_s)


def cpu_clock(pid: int) -> Callable[[], float]:
    """Return a clock of the CPU seconds that a process has used (Linux: clock_getcpuclockid(3), written out)."""
    clock = (~pid << 3) | 2
    return lambda: time.clock_gettime(clock)


async def measure(url: str, clock: Callable[[], float], *, vocabulary: range, repeat: int, seed: int) -> Measured:
    """Return `repeat` rounds of all measurements."""
    timeout = aiohttp.ClientTimeout(total=300)
    # llama-server closes connections that aiohttp would use again
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    measured = Measured()
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        probe = Probe(session, url, clock, vocabulary=vocabulary, seed=seed)
        await probe.times_s(probe.fresh_prompt(512), 16)
        for _ in range(repeat):
            await measured.add_round(probe)
    return measured


def report(measured: Measured, constants: Fit) -> None:
    """Print the arguments of the Timing to commit, then measured and modelled times."""
    points = ", ".join(f"({batch}, {step_s:.6f})" for batch, step_s in constants.decode_s.items())
    print(f"prefill_tokens_per_s={1 / constants.token_s:.0f},")
    print(f"prefill_attention_s={constants.attention_s:.3g},")
    print(f"decode_step_s=({points}),")
    print(f"decode_context_s={constants.context_s:.3g},")
    print(f"request_overhead_s={constants.overhead_s:.6f},")
    short, long = (tokens + DECODE_TOKENS / 2 for tokens in (SHORT_PROMPT_TOKENS, LONG_PROMPT_TOKENS))
    print(f"\n{'measurement':>20} {'median_ms':>10} {'spread_ms':>10} {'modelled_ms':>11} {'residual':>9}")
    for batch, seconds in measured.decode.items():
        print_row(f"decode {batch}", seconds, constants.step_s(batch, short))
    print_row(f"decode 1 at {long:.0f}", measured.long_decode, constants.step_s(1, long))
    print_row("repeated 512", measured.repeated, constants.overhead_s + constants.step_s(1, short))
    for tokens, seconds in measured.prefill.items():
        print_row(f"prefill {tokens}", seconds, constants.first_token_s(tokens))
    total = LONG_PROMPT_TOKENS + CONTINUATION_TOKENS
    print_row(
        f"check {LONG_PROMPT_TOKENS}+{CONTINUATION_TOKENS}",
        measured.continued,
        constants.first_token_s(total, LONG_PROMPT_TOKENS),
    )


def print_row(name: str, seconds: Sequence[float], modelled_s: float) -> None:
    """Print one measurement beside what the constants give."""
    sample = Sample.of(seconds)
    residual = modelled_s / sample.median_s - 1
    print(
        f"{name:>20} {sample.median_s * 1e3:10.2f} {sample.spread_s * 1e3:10.2f} {modelled_s * 1e3:11.2f} "
        f"{residual:+9.1%}"
    )


def main() -> None:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", required=True, help="server without the /v1")
    parser.add_argument("--vocabulary", default="300:32000", help="LOW:HIGH of plain token ids")
    parser.add_argument("--repeat", type=int, default=9, help="repetitions of each measurement")
    parser.add_argument("--pid", type=int, help="process whose CPU time is the clock, instead of real time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    low, high = map(int, options.vocabulary.split(":"))
    clock = cpu_clock(options.pid) if options.pid else time.monotonic
    measured = asyncio.run(
        measure(options.url, clock, vocabulary=range(low, high), repeat=options.repeat, seed=options.seed)
    )
    report(measured, fit(measured))


if __name__ == "__main__":
    main()
