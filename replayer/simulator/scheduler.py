"""Continuous batching without a clock or a socket: who waits, who runs, what the next step of the engine computes.

1. Calls wait in the order of their arrival until a batch slot and enough blocks for prompt and output are free. Blocks
   for the whole call are reserved, so a running call is never preempted; nobody overtakes the head of the queue.
2. A call's cached prefix is looked up when it is admitted, not when it arrives. What of it comes back from the host
   tier prolongs that step.
3. A step gives each decoding call one token and spends what is left of its token budget on prompts, oldest first;
   a long prompt takes several steps (chunked prefill). The step that ends a prompt also gives its first token.
4. When a step is complete, the full blocks it computed can be found by others. The last sampled token of a call has
   no KV entry; generated tokens are cached only if the engine's profile says so.
5. Steps between which nothing can change are taken together, as a stretch: until a call finishes or somebody looks at
   its tokens, and as long as no prompt is computed and nobody can be admitted. Who comes or leaves meanwhile cuts it
   at the end of the step in progress. What comes of it is what single steps would have given.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rotoscope.replayer.simulator.block_cache import BlockCache, BlockKeys, Lease, block_keys
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.replayer.simulator.tokenizer import TokenIds
from rotoscope.traces.analysis.profiles import EngineProfile, resident_tokens

Ending = Literal["stop", "length", "abort"]

_MOST_STEPS = 512
"""Of one stretch; more would be worked out in vain where something comes in between."""


@dataclass(slots=True, eq=False)
class Generation:
    """One output for one prompt, as the engine sees it; what it will say is known, the engine only takes its time."""

    prompt_ids: TokenIds
    output_ids: TokenIds
    ending: Ending = "stop"
    salt: str = ""
    awaited: Sequence[int] | None = None
    """After how many output tokens, beside the first and the last, somebody looks; rising. None: after each."""
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

    @property
    def is_looked_at(self) -> bool:
        """Return whether somebody looks at the tokens that there are."""
        generated = self.generated
        return self.finished or self.awaited is None or generated == 1 or generated in self.awaited

    @property
    def unobserved_steps(self) -> int:
        """Return after how many more tokens somebody looks."""
        if self.awaited is None:
            return 1
        generated, at = self.generated, bisect_right(self.awaited, self.generated)
        return (self.awaited[at] if at < len(self.awaited) else len(self.output_ids)) - generated


@dataclass(slots=True, eq=False)
class Stretch:
    """What the engine computes next: a step, or several in a row between which nothing happens."""

    ends_s: list[float]
    """When each step ends; the last ones are dropped when something comes in between."""
    prefill: tuple[tuple[Generation, int], ...]
    """Prompt tokens computed of each, in a single step."""
    planned_s: float
    """When it was known. A step cannot have ended before: an engine on a slow machine is behind its time."""
    done: int = 0
    """Steps that were taken note of."""

    @property
    def end_s(self) -> float:
        """Return when the last step ends."""
        return self.ends_s[-1]

    def cut(self, steps: int) -> None:
        """Drop all but the first steps; the one in progress is always taken to its end."""
        del self.ends_s[max(steps, self.done + 1) :]

    def pass_to(self, steps: int) -> list[float]:
        """Take note of steps up to here and return when those ended that were not noted before."""
        ends_s = self.ends_s[self.done : steps]
        self.done = max(self.done, steps)
        if ends_s and ends_s[0] < self.planned_s:
            ends_s = [max(end_s, self.planned_s) for end_s in ends_s]
        return ends_s


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
    """The state of the engine: `next_stretch` says what it does, `complete` that it is done, and so on.

    While a stretch of several steps is in progress the state lags behind, which nobody sees who lets it `catch_up`.
    """

    def __init__(self, cache: BlockCache, timing: Timing, profile: EngineProfile, *, max_batch: int) -> None:
        self.cache = cache
        self.timing = timing
        self.profile = profile
        self.max_batch = max_batch
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []
        self.stretch: Stretch | None = None
        """What is in progress."""
        self.counts = Counts()
        self._prefilling: list[Generation] = []
        """Of those that run, by admission; the rest decodes."""
        self._decoding: list[Generation] = []
        self._uncommitted = False
        """Whether decoding calls may have filled blocks that nobody can find yet."""

    def blocks_needed(self, tokens: int) -> int:
        """Return the blocks that a stream of `tokens` takes."""
        return -(-tokens // self.profile.block_size)

    def tokens_to_compute(self) -> int:
        """Return the prompt tokens that calls here still need, as far as their cached prefixes are known now."""
        left = sum(len(generation.prompt_ids) - generation.prefilled for generation in self._prefilling)
        size = self.profile.block_size
        return left + sum(len(each.prompt_ids) - self.found(each)[0] * size for each in self.waiting)

    def blocks_in_use(self) -> int:
        """Return the blocks of running calls that hold tokens by now, and those of waiting prompts."""
        self._commit_decoding()
        ahead = sum(
            self.blocks_needed(len(each.prompt_ids) + len(each.output_ids)) - self.blocks_needed(each.tokens)
            for each in self.running
        )
        return self.cache.held - ahead + sum(self.blocks_needed(len(each.prompt_ids)) for each in self.waiting)

    def found(self, generation: Generation) -> tuple[int, int]:
        """Return the blocks that a call would find now, on the device and behind it, and how many running calls hold."""
        self._commit_decoding()
        keys = self._keys_of(generation)[: self._usable(generation)]
        on_device = self.cache.match(keys)
        behind = 0 if self.cache.host is None else self.cache.host.match(keys[on_device:].tolist())
        return on_device + behind, self.cache.held_of(keys[:on_device])

    def submit(self, generation: Generation, now_s: float) -> None:
        """Put a call at the end of the queue; what is in progress ends where it could be admitted."""
        assert self.blocks_needed(len(generation.prompt_ids) + len(generation.output_ids)) <= self.cache.blocks
        generation.arrived_s = now_s
        self._keys_of(generation)
        generation.ready_s = now_s + self.timing.request_overhead_s
        self.waiting.append(generation)
        if len(self.waiting) == 1 and self.stretch is not None:
            self._cut_for_head(self.stretch)

    def cancel(self, generation: Generation, now_s: float) -> None:
        """Take a call out of queue or batch and free what it holds; nothing happens if it has finished."""
        if generation.finished:
            return
        self.catch_up(now_s)
        if generation.lease is None:
            self.waiting.remove(generation)
        generation.ending = "abort"
        self._finish(generation)
        if self.stretch is not None:
            self.stretch.cut(self.stretch.done + 1)

    def next_ready_s(self) -> float | None:
        """Return when the head of the queue may be scheduled; None if nobody waits."""
        return self.waiting[0].ready_s if self.waiting else None

    def next_stretch(self, now_s: float, *, start_s: float | None = None) -> Stretch | None:
        """Admit who fits and return what to compute, from `start_s` or now on; None if there is nothing to do yet."""
        if self.stretch is None:
            self.stretch = self._planned(now_s, now_s if start_s is None else start_s)
        return self.stretch

    def complete(self) -> list[Generation]:
        """Take note that what is in progress is done and return the calls that got a token."""
        stretch = self.stretch
        assert stretch is not None
        self.stretch = None
        return self._take(stretch, len(stretch.ends_s))

    def catch_up(self, now_s: float) -> None:
        """Bring the state to what it is now, all but the end of what is in progress, of which `complete` tells."""
        stretch = self.stretch
        if stretch is not None and len(stretch.ends_s) > 1:
            self._take(stretch, min(bisect_right(stretch.ends_s, now_s), len(stretch.ends_s) - 1))
        self._commit_decoding()

    def _planned(self, now_s: float, start_s: float) -> Stretch | None:
        decoding = self._decoding
        prefill: list[tuple[Generation, int]] = []
        budget = max(self.timing.step_tokens - len(decoding), 1)
        host_tokens = self.counts.host_tokens
        for generation in self._prefilling:
            budget -= self._plan_chunk(generation, budget, prefill)
        while budget and (admitted := self._admit(now_s)):
            budget -= self._plan_chunk(admitted, budget, prefill)
        if not prefill:
            return self._decode_stretch(now_s, start_s) if decoding else None
        duration_s = self.timing.step_s(
            prefill=[(generation.prefilled, fresh) for generation, fresh in prefill],
            contexts=[generation.tokens for generation in decoding],
            onboarded_tokens=self.counts.host_tokens - host_tokens,
        )
        return Stretch([start_s + duration_s], tuple(prefill), now_s)

    def _decode_stretch(self, now_s: float, start_s: float) -> Stretch:
        """Return all steps until somebody looks, a call finishes, or the head of the queue may be admitted."""
        decoding = self._decoding
        steps = min(_MOST_STEPS, min([generation.unobserved_steps for generation in decoding]))
        if self._could_admit() and self.waiting[0].ready_s <= now_s:  # it lacks blocks
            steps = min(steps, self._steps_to_sharing(self.waiting[0]))
        ends_s = self.timing.decode_steps_s(
            steps,
            sequences=len(decoding),
            context_tokens=sum([generation.tokens for generation in decoding]),
        )
        ends_s[0] += start_s
        stretch = Stretch(ends_s.cumsum().tolist(), (), now_s)
        if self.waiting and self.waiting[0].ready_s > now_s:
            self._cut_for_head(stretch)
        return stretch

    def _could_admit(self) -> bool:
        """Return whether the head of the queue lacks nothing but time or blocks."""
        return bool(self.waiting) and len(self.running) < self.max_batch

    def _cut_for_head(self, stretch: Stretch) -> None:
        """Let a stretch end with the step in which the head of the queue becomes ready."""
        if self._could_admit():
            stretch.cut(bisect_left(stretch.ends_s, self.waiting[0].ready_s) + 1)

    def _steps_to_sharing(self, head: Generation) -> int:
        """Return the steps in which no call fills a block that is cached already or that the head will look for.

        Only such blocks make room for the head: all others turn from held into held and findable.
        """
        steps, seen = _MOST_STEPS, set[int]()
        for generation in self._decoding:
            lease = generation.lease
            assert lease is not None
            if lease.committed == len(lease.keys):
                continue
            key = int(lease.keys[lease.committed])
            if key in seen or key in self.cache or self._looks_for(head, key, lease.committed):
                missing = (lease.committed + 1) * self.profile.block_size - self._resident(generation)
                steps = min(steps, missing)
            seen.add(key)
        return steps

    def _looks_for(self, head: Generation, key: int, depth: int) -> bool:
        return depth < self._usable(head) and int(self._keys_of(head)[depth]) == key

    def _take(self, stretch: Stretch, steps: int) -> list[Generation]:
        """Take note of the steps of a stretch up to here and return the calls that got a token."""
        ends_s = stretch.pass_to(steps)
        if not ends_s:
            return []
        gained = list(self._decoding)
        self._take_prefill(stretch, gained)
        for generation in gained:
            generation.token_times_s += ends_s
        self.counts.generated_tokens += len(gained) * len(ends_s)
        self._uncommitted = True
        for generation in gained:
            if len(generation.token_times_s) == len(generation.output_ids):
                self._finish(generation)
        return gained

    def _take_prefill(self, stretch: Stretch, gained: list[Generation]) -> None:
        """Take note of computed prompt tokens; calls whose prompt is done decode, and join `gained`."""
        for generation, count in stretch.prefill:
            if generation.finished:
                continue
            generation.prefilled += count
            if generation.decoding:
                self.counts.prompt_tokens += len(generation.prompt_ids)
                self._prefilling.remove(generation)
                self._decoding.append(generation)
                gained.append(generation)
            else:
                self._commit(generation)

    def _admit(self, now_s: float) -> Generation | None:
        if not self._could_admit() or self.waiting[0].ready_s > now_s:
            return None
        self._commit_decoding()
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
        self._prefilling.append(generation)
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

    def _resident(self, generation: Generation) -> int:
        """Return how many tokens of a call are in the cache."""
        if not generation.decoding:
            return generation.prefilled
        return resident_tokens(self.profile, generation.prefilled, generation.generated)

    def _commit_decoding(self) -> None:
        """Make findable what decoding calls have filled by now."""
        if self._uncommitted:
            self._uncommitted = False
            for generation in self._decoding:
                self._commit(generation)

    def _commit(self, generation: Generation) -> None:
        lease = generation.lease
        assert lease is not None
        blocks = self._resident(generation) // self.profile.block_size
        if blocks > lease.committed:
            self.cache.commit(lease, blocks)

    def _finish(self, generation: Generation) -> None:
        generation.finished = True
        self.counts.ended[generation.ending] += 1
        if generation.lease is not None:
            self._commit(generation)
            (self._decoding if generation.decoding else self._prefilling).remove(generation)
            self.running.remove(generation)
            self.cache.release(generation.lease)
