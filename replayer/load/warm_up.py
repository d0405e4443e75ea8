"""Shared prefixes in a server's cache before the run, as they are there where agents have been served for a while.

Each is sent as a prompt of its own, with an answer as short as the server gives: as often as it has replicas, all at once,
so that a router that deals in turn or by load gives one to each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.replayer.exchange import Backend, Exchange
from rotoscope.replayer.failures import NEVER_SENT, Failure
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.prompts import SharedPrompt
from rotoscope.traces.errors import UnusableInput

Times: TypeAlias = int | Literal["auto"]
"""How often each prefix is sent; auto: as many replicas as the server tells, else once."""

_MOST_TIMES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """What was preloaded."""

    prefixes: int
    """Shared prefixes of kind `system` that calls of the run begin with."""
    tokens: int
    """Of these prefixes together."""
    times: int
    """How often each was sent."""
    failed: int
    """Requests."""


@dataclass(frozen=True, slots=True)
class Preloaded:
    """A shared prefix that the server was sent before the run, on its backend's clock."""

    prompt: SharedPrompt
    sent_s: float | None
    """None when the server cannot have had it."""
    first_token_s: float | None
    counted_tokens: int
    """Of its prompt, by the server's usage; 0 where it tells none."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What was done before the run."""

    told: WarmUp
    preloaded: tuple[Preloaded, ...]


def parse_times(text: str) -> Times:
    """Read `auto` or a number of times; raise UnusableInput for anything else."""
    if text == "auto":
        return "auto"
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_TIMES):
        raise UnusableInput(
            f"a warm-up sends each shared prefix auto or 1 to {_MOST_TIMES:,} times, one for each replica, not {text!r}"
        )
    return int(text)


async def warm_up(
    prompts: Sequence[SharedPrompt], backend: Backend, *, times: int, output_tokens: int, notes: Notes
) -> Warmed:
    """Send each prompt so often and return that; a request that fails is noted, and the run goes on."""
    if not prompts:
        notes.add("nothing is preloaded: no call begins with a shared prefix of kind system")
    preloaded: list[Preloaded] = []
    failed = 0
    for prompt in prompts:
        exchanges = [Exchange(prompt=prompt.text, output_tokens=output_tokens) for _ in range(times)]
        failures = await asyncio.gather(*map(backend.perform, exchanges))
        preloaded += map(_preloaded, [prompt] * times, exchanges, failures)
        failed += sum(failure is not None for failure in failures)
    if failed:
        notes.add(f"{failed} of {len(preloaded)} requests that preload shared prefixes failed: the cache may lack them")
    tokens = sum(prompt.tokens for prompt in prompts)
    return Warmed(WarmUp(prefixes=len(prompts), tokens=tokens, times=times, failed=failed), tuple(preloaded))


def _preloaded(prompt: SharedPrompt, exchange: Exchange, failure: Failure | None) -> Preloaded:
    sent_s = None if failure and failure.kind in NEVER_SENT else exchange.sent_s
    return Preloaded(prompt, sent_s, exchange.first_token_s, exchange.prompt_tokens or 0)
