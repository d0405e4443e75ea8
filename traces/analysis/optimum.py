"""The planned optimum: what an infinite cache could serve of a trace's prompts, in O(calls) (R8).

Donors of a call are all calls before it, taken as finished. One pass over the calls: best[x] is how many leading
tokens of the stream x any donor so far has put into the cache, per cache domain.

1. best[x] starts at res(x), the tokens of x that the engine keeps; a shared prefix starts at 0, or at its length when
   it is preloaded.
2. For each call c in order: hit = min(n, best[of]); then best[of] rises to min(n, res(c)), because c's own stream
   begins with those n tokens. Shared prefixes are donors only through their uses, so what their ancestors hold counts
   for a hit and a use raises the ancestors too.
3. At least one prompt token is computed and only whole blocks count: min(P - 1, hit) floored to the block.

Without a profile a token is a block, everything of a stream is kept and nothing need be computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.traces.analysis.profiles import EngineProfile, usable_hit
from rotoscope.traces.forest import Node
from rotoscope.traces.model import Call, Prefix, SharedPrefix, SharedPrefixLink, Trace

Level: TypeAlias = Literal["low", "n", "high"]
"""Which value of each prefix is believed: its least, its best, or its greatest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What the planned optimum assumes; printed beside every rate."""

    profile: EngineProfile | None = None
    decode_reuse: bool = True
    """Whether outputs can be reused; a profile that keeps no generated tokens overrides it."""
    preload: bool = True
    """Whether shared prefixes of kind `system` are in the cache before the first call."""
    level: Level = "n"


def planned_hits(trace: Trace, assumptions: Assumptions | None = None) -> list[int]:
    """Return the tokens of each call's prompt that an infinite cache could serve, calls in order of their numbers."""
    assumptions = assumptions or Assumptions()
    shared = {prefix.id: prefix for prefix in trace.shared_prefixes}
    preloaded: dict[Node, int] = {
        prefix.id: prefix.tokens if assumptions.preload and prefix.kind == "system" else 0
        for prefix in trace.shared_prefixes
    }
    caches: dict[int, dict[Node, int]] = {}
    hits = []
    for call in trace.calls():
        best = caches.setdefault(call.domain, dict(preloaded))
        resident = _resident_tokens(call, assumptions)
        tokens = _believed(call.prefix, assumptions.level)
        line = list(_line(call.prefix, shared, assumptions.level))
        hits.append(_capped(_hit(call.prefix, tokens, line, best), call, assumptions))
        for node, common in line:
            best[node] = max(best[node], min(common, resident))
        best[call.call] = resident
    return hits


def _resident_tokens(call: Call, assumptions: Assumptions) -> int:
    profile = assumptions.profile
    if profile is not None:
        return profile.resident_tokens(call) if assumptions.decode_reuse else call.prompt_tokens
    return call.stream_tokens if assumptions.decode_reuse else call.prompt_tokens


def _believed(prefix: Prefix | SharedPrefixLink, level: Level) -> int:
    return {"low": prefix.least, "n": prefix.tokens, "high": prefix.greatest}[level]


def _hit(prefix: Prefix, tokens: int, line: Sequence[tuple[Node, int]], best: dict[Node, int]) -> int:
    if prefix.of is None:
        return tokens  # 0, or the greatest value of a history that was never seen
    if best[prefix.of] >= prefix.tokens or tokens > prefix.tokens:
        return tokens  # what may be shared beyond n may lie in any earlier stream
    return max(min(common, best[node]) for node, common in line)


def _line(prefix: Prefix, shared: dict[str, SharedPrefix], level: Level) -> Iterator[tuple[Node, int]]:
    """Yield the stream that a call begins like and the ancestors of a shared one, with the tokens that are common."""
    of, common = prefix.of, _believed(prefix, level)
    while of is not None:
        yield of, common
        parent = shared[of].prefix if isinstance(of, str) else None
        of, common = (parent.of, min(common, _believed(parent, level))) if parent else (None, 0)


def _capped(hit: int, call: Call, assumptions: Assumptions) -> int:
    if assumptions.profile is None:
        return hit
    return usable_hit(assumptions.profile, hit, call.prompt_tokens)
