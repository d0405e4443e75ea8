"""How long the simulated engine takes, and the clocks it may run on. All times are modelled seconds.

A step of the engine computes some fresh prompt tokens and one output token for each sequence that decodes. It lasts

    sum over prompts:  fresh / prefill rate + prefill attention * (sum of the tokens before each fresh token)
    + decode step at that batch size, or the prefill step where prompts are computed and it is longer
    + decode context * (sum of the tokens behind each decoding sequence)
    + tokens brought back from the host tier * onboard time

so a cached prefix costs nothing to compute but something to look at, as in a real engine. The weights are read once a
step, for prompts and decoding sequences together, which is why the two steps are not added up. Nothing is computed
while blocks come back: engines that overlap the two hide part of that time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rotoscope.traces.errors import UnusableInput


@dataclass(frozen=True, slots=True)
class Timing:
    """The constants of the timing model, fitted to one engine on one machine."""

    prefill_tokens_per_s: float
    """Fresh prompt tokens a second, attention left aside."""
    decode_step_s: tuple[tuple[int, float], ...]
    """(sequences, seconds of a step that gives each one token), by rising batch size; straight lines between."""
    prefill_step_s: float = 0.0
    """What a step that computes prompts takes beside their tokens, if decoding does not take longer."""
    prefill_attention_s: float = 0.0
    """For one fresh prompt token to attend to one token before it."""
    decode_context_s: float = 0.0
    """For one decoding sequence to attend to one token of its context."""
    request_overhead_s: float = 0.0
    """From the arrival of a request to when it may be scheduled: parsing, tokenizing, slot handling."""
    onboard_token_s: float = 0.0
    """To bring the KV of one token from host memory to the device."""
    step_tokens: int = 2048
    """Most tokens one step computes: longer prompts are cut into chunks."""
    source: str = "given"
    """What was measured, how and when."""

    def step_s(
        self, *, prefill: Sequence[tuple[int, int]] = (), contexts: Sequence[int] = (), onboarded_tokens: int = 0
    ) -> float:
        """Return how long a step lasts; `prefill` holds (tokens before, fresh tokens), `contexts` decoding lengths."""
        seconds = sum(self._prefill_s(before, fresh) for before, fresh in prefill)
        seconds += self.onboard_token_s * onboarded_tokens
        seconds += max(self.prefill_step_s if prefill else 0.0, self._decode_s(len(contexts)) if contexts else 0.0)
        return seconds + self.decode_context_s * sum(contexts)

    def decode_steps_s(self, steps: int, *, sequences: int, context_tokens: int) -> NDArray[np.float64]:
        """Return how long each of some steps in a row lasts, in which these sequences get a token each and nothing else.

        `context_tokens` is the sum of their lengths at first. To the last bit what `step_s` gives step by step.
        """
        contexts = context_tokens + sequences * np.arange(steps, dtype=np.float64)
        durations_s: NDArray[np.float64] = self._decode_s(sequences) + self.decode_context_s * contexts
        return durations_s

    def _prefill_s(self, before: int, fresh: int) -> float:
        pairs = fresh * before + fresh * (fresh - 1) // 2
        return fresh / self.prefill_tokens_per_s + self.prefill_attention_s * pairs

    def _decode_s(self, batch: int) -> float:
        points = self.decode_step_s
        if len(points) == 1:
            return points[0][1]
        at = next((i for i in range(1, len(points)) if batch <= points[i][0]), len(points) - 1)
        (x0, y0), (x1, y1) = points[at - 1], points[at]
        return y0 + (y1 - y0) * (batch - x0) / (x1 - x0)


class Clock(Protocol):
    """Modelled time."""

    def now(self) -> float:
        """Return modelled seconds since some start."""
        ...

    def call_at(self, moment_s: float, act: Callable[[], None]) -> asyncio.Handle:
        """Let the running event loop call `act` at a moment, or in its next turn if that is past."""
        ...


class ScaledClock:
    """Modelled time that passes `speed` times as fast as real time."""

    def __init__(self, speed: float = 1.0, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._speed = speed
        self._monotonic = monotonic
        self._start_s = monotonic()

    def now(self) -> float:
        """Return modelled seconds since the clock was made."""
        return (self._monotonic() - self._start_s) * self._speed

    def call_at(self, moment_s: float, act: Callable[[], None]) -> asyncio.Handle:
        """Let `act` be called after the real time that is left until a modelled moment."""
        return asyncio.get_running_loop().call_later(max(moment_s - self.now(), 0.0) / self._speed, act)


class JumpingClock:
    """Modelled time that never waits: asking for a moment jumps there."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        """Return the moment last jumped to."""
        return self._now_s

    def call_at(self, moment_s: float, act: Callable[[], None]) -> asyncio.Handle:
        """Jump there and let `act` be called when the other tasks have had their turn."""
        self._now_s = max(self._now_s, moment_s)
        return asyncio.get_running_loop().call_soon(act)


def speed_of(text: str) -> float:
    """Return the factor that a user wrote; 0 stands for `max`."""
    try:
        return 0.0 if text == "max" else float(text)
    except ValueError:
        raise UnusableInput(f"speed {text!r} is neither a number nor 'max'") from None


def clock_of_speed(speed: float) -> Clock:
    """Return the clock for a speed: 1 real time, X times as fast, 0 or infinity without any waiting."""
    if not speed >= 0:
        raise UnusableInput(f"speed {speed} is not a factor above zero; 0 or 'max' runs without waiting")
    if speed in (0, float("inf")):
        return JumpingClock()
    return ScaledClock(speed)
