"""The hit rates of the field, by name: what each counts, of the same requests on a cache without limit.

One trace has six of them that differ by several points, so none may be printed without its name. All take requests in
the order in which they came. `source` is where the definition is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rotoscope.traces.analysis.optimum import Assumptions, planned_hits_together
from rotoscope.traces.corpus import Member, calls_in_order


@dataclass(frozen=True, slots=True)
class RequestHit:
    """A prompt and how much of it a cache of blocks holds, both in tokens; `hit_tokens` is as known, not floored."""

    prompt_tokens: int
    hit_tokens: int
    block_size: int

    @property
    def blocks(self) -> int:
        """Blocks of the prompt, a partial last one included."""
        return -(-self.prompt_tokens // self.block_size)

    @property
    def full_blocks(self) -> int:
        return self.prompt_tokens // self.block_size

    @property
    def hit_full_blocks(self) -> int:
        return self.hit_tokens // self.block_size

    @property
    def hit_blocks(self) -> int:
        """Blocks that are found; the partial last one only where the whole prompt is."""
        return self.blocks if self.hit_tokens == self.prompt_tokens else self.hit_full_blocks

    @property
    def tokens_in_hit_blocks(self) -> int:
        return min(self.hit_blocks * self.block_size, self.prompt_tokens)


def block_hit_rate(requests: Sequence[RequestHit]) -> float:
    """Return sum of found blocks / sum of blocks; a partial last block counts as one."""
    return _ratio(sum(one.hit_blocks for one in requests), sum(one.blocks for one in requests))


def token_hit_rate(requests: Sequence[RequestHit]) -> float:
    """Return sum of tokens in found blocks / sum of prompt tokens."""
    return _ratio(sum(one.tokens_in_hit_blocks for one in requests), sum(one.prompt_tokens for one in requests))


def full_block_hit_rate(requests: Sequence[RequestHit]) -> float:
    """Return sum of found full blocks / sum of full blocks."""
    return _ratio(sum(one.hit_full_blocks for one in requests), sum(one.full_blocks for one in requests))


def request_mean_block_hit_rate(requests: Sequence[RequestHit]) -> float:
    """Return the mean over requests of found blocks / blocks."""
    return _ratio(sum(one.hit_blocks / one.blocks for one in requests), len(requests))


def request_mean_token_hit_rate(requests: Sequence[RequestHit]) -> float:
    """Return the mean over requests of tokens in found blocks / prompt tokens."""
    return _ratio(sum(one.tokens_in_hit_blocks / one.prompt_tokens for one in requests), len(requests))


@dataclass(frozen=True, slots=True)
class HitRate:
    """A definition of the hit rate."""

    name: str
    function: Callable[[Sequence[RequestHit]], float]
    definition: str
    source: str
    warmed: bool = False
    """Whether the first half of the requests only warms the cache."""

    def of(self, caches: Sequence[Sequence[RequestHit]]) -> float:
        """Return the rate of all requests, given by the cache that they met, in their order."""
        return self.function([one for cache in caches for one in cache[self.warmed * len(cache) // 2 :]])


HIT_RATES: tuple[HitRate, ...] = (
    HitRate("block", block_hit_rate, "found blocks / blocks, a partial last block is one", "cache simulators"),
    HitRate("token", token_hit_rate, "tokens in found blocks / prompt tokens", "engines' own counters"),
    HitRate("full-block", full_block_hit_rate, "found full blocks / full blocks", "the Mooncake paper's table 2"),
    HitRate("request-mean block", request_mean_block_hit_rate, "mean over requests of block", "AIPerf analyze-trace"),
    HitRate("request-mean token", request_mean_token_hit_rate, "mean over requests of token", "per-request reports"),
    HitRate("steady token", token_hit_rate, "token, over the second half of the requests", "kvcache-simulator", True),
)


def request_hits(members: Sequence[Member], block_size: int, assumptions: Assumptions) -> list[RequestHit]:
    """Return the requests of a corpus on one cache in the order of its calls."""
    hits = planned_hits_together(members, assumptions)
    numbers = [
        dict(zip((call.call for call in member.trace.calls()), found, strict=True))
        for member, found in zip(members, hits, strict=True)
    ]
    return [
        RequestHit(call.prompt_tokens, numbers[index][call.call], block_size) for index, call in calls_in_order(members)
    ]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
