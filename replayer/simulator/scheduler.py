"""Continuous batching without a clock or a socket: who waits, who runs, what the next step of the engine computes.

1. Calls wait in the order of their arrival until a batch slot and enough blocks for prompt and output are free. Blocks
   for the whole call are reserved, so a running call is never preempted; nobody overtakes the head of the queue.
2. A call's cached prefix is looked up when it is admitted, not when it arrives. What of it comes back from the host
   tier prolongs that step.
3. A step gives each decoding call one token and spends what is left of its token budget on prompts, oldest first;
   a long prompt takes several steps (chunked prefill). The step that ends a prompt also gives its first token.
4. When a step is complete, the full blocks it computed can be found by others. The last sampled token of a call has
   no KV entry; generated tokens are cached only if the engine's profile says so.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rotoscope.replayer.simulator.block_cache import BlockCache, BlockKeys, Lease, block_keys
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.replayer.simulator.tokenizer import TokenIds
from rotoscope.traces.analysis.profiles import EngineProfile, resident_tokens

Ending = Literal["stop", "length", "abort"]


@dataclass(slots=True, eq=False)
class Generation:
    """One output for one prompt, as the engine sees it; what it will say is known, the engine only takes its time."""

    prompt_ids: TokenIds
    output_ids: TokenIds
    ending: Ending = "stop"
    salt: str = ""
    arrived_s: float = 0.0
    ready_s: float = 0.0
    admitted_s: float = 0.0
    token_times_s: list[float] = field(default_factory=list)
    """When each output token was there."""
    cached_tokens: int = 0
    """Prompt tokens that were found, on the device or in the host tier."""
    prefilled: int = 0
    """Prompt tokens that are in the cache or computed."""
    keys: BlockKeys | None = None
    """Of the stream's blocks, from when a router or the scheduler first needs them."""
    lease: Lease | None = None
    finished: bool = False

    @property
    def generated(self) -> int:
        """Return how many output tokens there are so far."""
        return len(self.token_times_s)

    @property
    def tokens(self) -> int:
        """Return the tokens of prompt and output so far."""
        return len(self.prompt_ids) + self.generated

    @property
    def decoding(self) -> bool:
        """Return whether the prompt is done."""
        return self.prefilled == len(self.prompt_ids)


@dataclass(frozen=True, slots=True)
class Step:
    """What the engine computes next."""

    duration_s: float
    prefill: tuple[tuple[Generation, int], ...]
    """Prompt tokens computed of each."""
    decode: tuple[Generation, ...]


@dataclass(slots=True)
class Counts:
    """What has happened since the start, in tokens and calls."""

    queried_tokens: int = 0
    """Prompt tokens of admitted calls."""
    hit_tokens: int = 0
    """Those found on the device."""
    host_tokens: int = 0
    """Those found behind them in the host tier."""
    prompt_tokens: int = 0
    """Prompt tokens of calls whose prompt was completed."""
    generated_tokens: int = 0
    ended: dict[Ending, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})


class Scheduler:
    """The state of the engine between two steps."""

    def __init__(self, cache: BlockCache, timing: Timing, profile: EngineProfile, *, max_batch: int) -> None:
        self.cache = cache
        self.timing = timing
        self.profile = profile
        self.max_batch = max_batch
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []
        self.counts = Counts()

    def blocks_needed(self, tokens: int) -> int:
        """Return the blocks that a stream of `tokens` takes."""
        return -(-tokens // self.profile.block_size)

    def tokens_to_compute(self) -> int:
        """Return the prompt tokens that calls here still need, as far as their cached prefixes are known now."""
        left = sum(len(generation.prompt_ids) - generation.prefilled for generation in self.running)
        size = self.profile.block_size
        return left + sum(len(each.prompt_ids) - self.found(each)[0] * size for each in self.waiting)

    def blocks_in_use(self) -> int:
        """Return the blocks of running calls that hold tokens by now, and those of waiting prompts."""
        ahead = sum(
            self.blocks_needed(len(each.prompt_ids) + len(each.output_ids)) - self.blocks_needed(each.tokens)
            for each in self.running
        )
        return self.cache.held - ahead + sum(self.blocks_needed(len(each.prompt_ids)) for each in self.waiting)

    def found(self, generation: Generation) -> tuple[int, int]:
        """Return the blocks that a call would find now, on the device and behind it, and how many running calls hold."""
        keys = self._keys_of(generation)[: self._usable(generation)]
        on_device = self.cache.match(keys)
        behind = 0 if self.cache.host is None else self.cache.host.match(keys[on_device:].tolist())
        return on_device + behind, self.cache.held_of(keys[:on_device])

    def submit(self, generation: Generation, now_s: float) -> None:
        """Put a call at the end of the queue."""
        assert self.blocks_needed(len(generation.prompt_ids) + len(generation.output_ids)) <= self.cache.blocks
        generation.arrived_s = now_s
        self._keys_of(generation)
        generation.ready_s = now_s + self.timing.request_overhead_s
        self.waiting.append(generation)

    def cancel(self, generation: Generation) -> None:
        """Take a call out of queue or batch and free what it holds; nothing happens if it has finished."""
        if generation.finished:
            return
        if generation.lease is None:
            self.waiting.remove(generation)
        generation.ending = "abort"
        self._finish(generation)

    def next_ready_s(self) -> float | None:
        """Return when the head of the queue may be scheduled; None if nobody waits."""
        return self.waiting[0].ready_s if self.waiting else None

    def next_step(self, now_s: float) -> Step | None:
        """Admit who fits and return what to compute; None if there is nothing to do yet."""
        decode = tuple(generation for generation in self.running if generation.decoding)
        prefill: list[tuple[Generation, int]] = []
        budget = max(self.timing.step_tokens - len(decode), 1)
        host_tokens = self.counts.host_tokens
        for generation in [generation for generation in self.running if not generation.decoding]:
            budget -= self._plan_chunk(generation, budget, prefill)
        while budget and (admitted := self._admit(now_s)):
            budget -= self._plan_chunk(admitted, budget, prefill)
        if not decode and not prefill:
            return None
        duration_s = self.timing.step_s(
            prefill=[(generation.prefilled, fresh) for generation, fresh in prefill],
            contexts=[generation.tokens for generation in decode],
            onboarded_tokens=self.counts.host_tokens - host_tokens,
        )
        return Step(duration_s, tuple(prefill), decode)

    def complete(self, step: Step, now_s: float) -> list[Generation]:
        """Take note that a step is done and return the calls that got a token; those cancelled meanwhile are left out."""
        gained = [generation for generation in step.decode if not generation.finished]
        for generation, count in step.prefill:
            if generation.finished:
                continue
            generation.prefilled += count
            if generation.decoding:
                self.counts.prompt_tokens += len(generation.prompt_ids)
                gained.append(generation)
            else:
                self._commit(generation)
        for generation in gained:
            generation.token_times_s.append(now_s)
            self._commit(generation)
            self.counts.generated_tokens += 1
            if generation.generated == len(generation.output_ids):
                self._finish(generation)
        return gained

    def _admit(self, now_s: float) -> Generation | None:
        if not self.waiting or len(self.running) >= self.max_batch or self.waiting[0].ready_s > now_s:
            return None
        generation = self.waiting[0]
        prompt_tokens, size = len(generation.prompt_ids), self.profile.block_size
        generation.lease = self.cache.acquire(
            self._keys_of(generation),
            usable=self._usable(generation),
            total=self.blocks_needed(prompt_tokens + len(generation.output_ids)),
        )
        if generation.lease is None:
            return None
        self.waiting.popleft()
        self.running.append(generation)
        generation.admitted_s = now_s
        generation.cached_tokens = generation.prefilled = generation.lease.cached * size
        self.counts.queried_tokens += prompt_tokens
        host_tokens = generation.lease.onboarded * size
        self.counts.hit_tokens += generation.cached_tokens - host_tokens
        self.counts.host_tokens += host_tokens
        return generation

    def _keys_of(self, generation: Generation) -> BlockKeys:
        if generation.keys is None:
            stream = np.concatenate([generation.prompt_ids, generation.output_ids])
            generation.keys = block_keys(stream, self.profile.block_size, generation.salt)
        return generation.keys

    def _usable(self, generation: Generation) -> int:
        """Return the most blocks of a prompt that may be found: its last token is always computed."""
        return (len(generation.prompt_ids) - 1) // self.profile.block_size

    def _plan_chunk(self, generation: Generation, budget: int, prefill: list[tuple[Generation, int]]) -> int:
        count = min(len(generation.prompt_ids) - generation.prefilled, budget)
        if count:
            prefill.append((generation, count))
        return count

    def _commit(self, generation: Generation) -> None:
        assert generation.lease is not None
        resident = generation.prefilled
        if generation.decoding:
            resident = resident_tokens(self.profile, generation.prefilled, generation.generated)
        self.cache.commit(generation.lease, resident // self.profile.block_size)

    def _finish(self, generation: Generation) -> None:
        generation.finished = True
        self.counts.ended[generation.ending] += 1
        if generation.lease is not None:
            self.running.remove(generation)
            self.cache.release(generation.lease)
