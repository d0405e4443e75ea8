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

The traces of a corpus may share one cache: their calls then come in its order, and shared prefixes are the same where
campaign, domain and id are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.traces.analysis.profiles import EngineProfile, usable_hit
from rotoscope.traces.corpus import Member, calls_in_order
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
    return planned_hits_together([Member(name="", trace=trace)], assumptions)[0]


def planned_hits_together(members: Sequence[Member], assumptions: Assumptions | None = None) -> list[list[int]]:
    """Return the same for each member of a corpus whose members share one cache, in the order of all their calls."""
    assumptions = assumptions or Assumptions()
    shared = [{prefix.id: prefix for prefix in member.trace.shared_prefixes} for member in members]
    best: dict[_Stream, int] = {}
    hits: list[dict[int, int]] = [{} for _ in members]
    for index, call in calls_in_order(members):
        scope = _Scope(index, members[index].trace.campaign, call.domain, shared[index])
        resident = _resident_tokens(call, assumptions)
        tokens = _believed(call.prefix, assumptions.level)
        line = list(_line(call.prefix, scope, assumptions.level))
        for stream, _ in line:
            if stream not in best:
                best[stream] = _preloaded_tokens(stream, scope, assumptions)
        hits[index][call.call] = _capped(_hit(call.prefix, tokens, line, best), call, assumptions)
        for stream, common in line:
            best[stream] = max(best[stream], min(common, resident))
        best[index, call.call] = resident
    return [[found[number] for number in sorted(found)] for found in hits]


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the references of a call mean."""

    member: int
    campaign: str
    domain: int
    shared: dict[str, SharedPrefix]


_Stream: TypeAlias = tuple[int, int] | tuple[str, int, str]
"""A call, by member and number, or a shared prefix, by campaign, domain and id."""


def _preloaded_tokens(stream: _Stream, scope: _Scope, assumptions: Assumptions) -> int:
    prefix = scope.shared[str(stream[-1])]
    return prefix.tokens if assumptions.preload and prefix.kind == "system" else 0


def _resident_tokens(call: Call, assumptions: Assumptions) -> int:
    profile = assumptions.profile
    if profile is not None:
        return profile.resident_tokens(call) if assumptions.decode_reuse else call.prompt_tokens
    return call.stream_tokens if assumptions.decode_reuse else call.prompt_tokens


def _believed(prefix: Prefix | SharedPrefixLink, level: Level) -> int:
    return {"low": prefix.least, "n": prefix.tokens, "high": prefix.greatest}[level]


def _hit(prefix: Prefix, tokens: int, line: Sequence[tuple[_Stream, int]], best: dict[_Stream, int]) -> int:
    if not line:
        return tokens  # 0, or the greatest value of a history that was never seen
    if best[line[0][0]] >= prefix.tokens or tokens > prefix.tokens:
        return tokens  # what may be shared beyond n may lie in any earlier stream
    return max(min(common, best[stream]) for stream, common in line)


def _line(prefix: Prefix, scope: _Scope, level: Level) -> Iterator[tuple[_Stream, int]]:
    """Yield the stream that a call begins like and the ancestors of a shared one, with the tokens that are common."""
    of, common = prefix.of, _believed(prefix, level)
    while isinstance(of, str):
        yield (scope.campaign, scope.domain, of), common
        parent = scope.shared[of].prefix
        of, common = (parent.of, min(common, _believed(parent, level))) if parent else (None, 0)
    if of is not None:
        yield (scope.member, of), common


def _capped(hit: int, call: Call, assumptions: Assumptions) -> int:
    if assumptions.profile is None:
        return hit
    return usable_hit(assumptions.profile, hit, call.prompt_tokens)
