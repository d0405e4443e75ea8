"""Where streams part in a run of many sessions: who leaves whom at which token, as which of how many (R9).

A place is a token of a stream at which others leave it. Places on calls belong to one session. Two kinds belong to the
whole run: the root, where all calls without a prefix and all shared prefixes without a parent part, and places on
shared prefixes. Ranks there do not depend on the order in which sessions run, nor on how many follow:

1. shared prefixes that are one for the run,
2. then for each copy of the corpus its own shared prefixes (groups) and its calls, by trace and number.

Calls of different cache domains share nothing, though all go to one server (R1): each domain of a campaign has shared
prefixes of its own, those of domain 0 first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import Forest, Node
from rotoscope.traces.model import Call, SharedPrefix, Trace


class SharedKey(NamedTuple):
    """What makes two shared prefixes the same one (R7), for calls of one cache domain."""

    campaign: str
    id: str
    domain: int = 0


Origin: TypeAlias = SharedKey | int | None
"""The stream that another one begins like: shared, an earlier call of its session, or none."""


@dataclass(frozen=True, slots=True)
class SharedStream:
    """A shared prefix as it is in a run: the longest of all traces."""

    key: SharedKey
    kind: str
    tokens: int
    of: SharedKey | None
    leaves_at: int
    by_copy: bool
    """Whether each copy of the corpus has its own: kind `group`, or it begins like one of them."""


@dataclass(frozen=True, slots=True)
class Parting:
    """How one stream leaves another: after `tokens` tokens, as number `rank` of the `children` that leave there."""

    of: Origin
    tokens: int
    rank: int
    children: int
    ways: int
    """Codes a child needs: two where output of a server may stand at the place, that of `of` or of a repeated prompt."""
    excludes: bool
    """Whether `of` has a token of its prompt there."""

    def is_crowded(self, ids: int) -> bool:
        """Whether the children need more codes of one token than there are."""
        return self.children * self.ways > ids - self.excludes


class Partings:
    """All places of a run in which session i performs trace i modulo their number."""

    def __init__(self, traces: Sequence[Trace], sessions: int) -> None:
        self._sessions = sessions
        self._common: dict[tuple[SharedKey | None, int], _CommonPlace] = {}
        self.shared = _of_each_domain(_merged(traces), traces)
        for stream in self.shared.values():
            self._place(stream.of, stream.leaves_at, len(traces)).add_shared(stream)
        self._calls = [self._of_trace(trace, number, len(traces)) for number, trace in enumerate(traces)]

    def of_session(self, session: int) -> Iterator[tuple[int, Parting]]:
        """Yield the calls of a session in order, with how each leaves the stream that it begins like."""
        for call in self._calls[session % len(self._calls)]:
            yield call, self.of_call(session, call)

    def of_call(self, session: int, call: int) -> Parting:
        """Return how a call of a session leaves the stream that it begins like."""
        copy, trace = divmod(session, len(self._calls))
        parting = self._calls[trace][call]
        if isinstance(parting.of, int):
            return parting
        place = self._common[parting.of, parting.tokens]
        rank = place.call_rank(parting.rank, trace, copy)
        return replace(parting, rank=rank, children=place.children(self._sessions), ways=place.ways)

    def of_shared(self, key: SharedKey, copy: int) -> Parting:
        """Return how a shared prefix leaves the one that it begins like, in this copy of the corpus."""
        stream = self.shared[key]
        place = self._common[stream.of, stream.leaves_at]
        return Parting(
            of=stream.of,
            tokens=stream.leaves_at,
            rank=place.shared_rank(stream, copy),
            children=place.children(self._sessions),
            ways=place.ways,
            excludes=self._goes_on(stream.of, stream.leaves_at),
        )

    def preloadable(self) -> list[SharedKey]:
        """Return the shared prefixes that are one for the run and that calls begin with, parents first.

        Those are left out with the whole of which another one of them begins.
        """
        used = {one for (of, _), place in self._common.items() if place.callers for one in self._way_to(of)}
        keys = [key for key, stream in self.shared.items() if key in used and not stream.by_copy]
        held = {
            of for key in keys if (of := self.shared[key].of) and self.shared[key].leaves_at == self.shared[of].tokens
        }
        return [key for key in keys if key not in held]

    def _way_to(self, key: SharedKey | None) -> Iterator[SharedKey]:
        """Yield a shared prefix and those that it begins like."""
        while key is not None:
            yield key
            key = self.shared[key].of

    def crowded(self, ids: int) -> int:
        """Count the streams of the run that one token of that many ids cannot keep apart from all others."""
        copies, rest = divmod(self._sessions, len(self._calls))
        count = 0
        for trace, calls in enumerate(self._calls):
            inner = sum(p.is_crowded(ids) for p in calls.values() if isinstance(p.of, int))
            count += inner * (copies + (trace < rest))
        for (of, tokens), place in self._common.items():
            children = place.children(self._sessions)
            if children * place.ways > ids - self._goes_on(of, tokens):
                count += children * (-(-self._sessions // len(self._calls)) if place.by_copy else 1)
        return count

    def _place(self, of: SharedKey | None, tokens: int, traces: int) -> _CommonPlace:
        if (of, tokens) not in self._common:
            by_copy = of is not None and self.shared[of].by_copy
            self._common[of, tokens] = _CommonPlace(by_copy, traces)
        return self._common[of, tokens]

    def _goes_on(self, of: SharedKey | None, tokens: int) -> bool:
        return of is not None and tokens < self.shared[of].tokens

    def _of_trace(self, trace: Trace, number: int, traces: int) -> dict[int, Parting]:
        """Rank the calls of a trace; those at places of the run only among themselves, and without ways."""
        forest = Forest.of_trace(trace)
        calls = {call.call: call for call in trace.calls()}
        origins = {call.call: _origin(forest, call, trace.campaign) for call in calls.values()}
        ranks: Counter[tuple[Origin, int]] = Counter()
        repeated = {origins[c.call] for c in calls.values() if _repeats(c)}
        partings = {}
        for call, place in origins.items():
            partings[call] = self._parting(place, ranks[place], calls)
            ranks[place] += 1
        for (of, tokens), count in ranks.items():
            if not isinstance(of, int):
                common = self._place(of, tokens, traces)
                common.add_calls(number, count)
                common.repeats |= (of, tokens) in repeated
        return {
            call: replace(p, children=ranks[p.of, p.tokens], ways=2 if (p.of, p.tokens) in repeated else p.ways)
            for call, p in partings.items()
        }

    def _parting(self, place: tuple[Origin, int], rank: int, calls: dict[int, Call]) -> Parting:
        of, tokens = place
        answered, excludes = False, False
        if isinstance(of, int):
            excludes = tokens < calls[of].prompt_tokens
            answered = not excludes and tokens < calls[of].stream_tokens
        else:
            excludes = self._goes_on(of, tokens)
        return Parting(of, tokens, rank, children=0, ways=1 + answered, excludes=excludes)


@dataclass(slots=True)
class _CommonPlace:
    """A place of the whole run; most traces have no call at most places, so only those that do are kept."""

    by_copy: bool
    """Whether each copy of the corpus has a place of its own here."""
    traces: int
    """How many there are."""
    callers: list[int] = field(default_factory=list)
    """The traces whose calls leave here, in order."""
    calls_until: list[int] = field(default_factory=lambda: [0])
    """Calls of the first 0, 1, ... of these traces that leave here."""
    once: dict[SharedKey, int] = field(default_factory=dict)
    per_copy: dict[SharedKey, int] = field(default_factory=dict)
    repeats: bool = False

    @property
    def ways(self) -> int:
        return 1 + self.repeats

    def add_shared(self, stream: SharedStream) -> None:
        among = self.per_copy if stream.by_copy else self.once
        among[stream.key] = len(among)

    def add_calls(self, trace: int, count: int) -> None:
        """Add the calls of the next trace."""
        self.callers.append(trace)
        self.calls_until.append(self.calls_until[-1] + count)

    def call_rank(self, rank: int, trace: int, copy: int) -> int:
        return self._start(copy) + len(self.per_copy) + self._calls_before(trace) + rank

    def shared_rank(self, stream: SharedStream, copy: int) -> int:
        return self._start(copy) + self.per_copy[stream.key] if stream.by_copy else self.once[stream.key]

    def children(self, sessions: int) -> int:
        """Count what leaves here when that many sessions run; the last copy of the corpus may be cut short."""
        copies, rest = divmod(sessions, self.traces)
        if self.by_copy and copies:
            copies, rest = 1, 0
        last = len(self.per_copy) + self._calls_before(rest) if rest else 0
        return len(self.once) + copies * self._of_a_copy + last

    def _start(self, copy: int) -> int:
        return len(self.once) + (0 if self.by_copy else copy * self._of_a_copy)

    def _calls_before(self, trace: int) -> int:
        return self.calls_until[bisect_left(self.callers, trace)]

    @property
    def _of_a_copy(self) -> int:
        return len(self.per_copy) + self.calls_until[-1]


def _origin(forest: Forest, call: Call, campaign: str) -> tuple[Origin, int]:
    owner = forest.owner(call.prefix.of, call.prefix.tokens)
    return (SharedKey(campaign, owner, call.domain) if isinstance(owner, str) else owner), call.prefix.tokens


def _repeats(call: Call) -> bool:
    """Whether the prompt ends where the call parts, so that output of the server stands there."""
    return call.prompt_tokens == call.prefix.tokens


def _merged(traces: Sequence[Trace]) -> dict[SharedKey, SharedStream]:
    """Gather the shared prefixes of all traces, parents first; the same key has the longest of its lengths."""
    merged: dict[SharedKey, SharedStream] = {}
    for trace in traces:
        forest = Forest.of_trace(trace)
        for shared in trace.shared_prefixes:
            stream = _shared_stream(shared, forest, trace.campaign, merged)
            known = merged.setdefault(stream.key, stream)
            if replace(known, tokens=stream.tokens) != stream:
                raise TraceError(
                    f"expected kind and prefix as in another trace of campaign {trace.campaign}, found others",
                    field=f"shared_prefixes.{shared.id}",
                )
            merged[stream.key] = replace(known, tokens=max(known.tokens, stream.tokens))
    return merged


def _of_each_domain(merged: Mapping[SharedKey, SharedStream], traces: Sequence[Trace]) -> dict[SharedKey, SharedStream]:
    """Give each cache domain of a campaign the shared prefixes of domain 0."""
    domains = sorted({(call.domain, trace.campaign) for trace in traces for call in trace.calls() if call.domain})
    streams = dict(merged)
    for domain, campaign in domains:
        for stream in merged.values():
            if stream.key.campaign == campaign:
                key, of = stream.key._replace(domain=domain), stream.of and stream.of._replace(domain=domain)
                streams[key] = replace(stream, key=key, of=of)
    return streams


def _shared_stream(
    shared: SharedPrefix, forest: Forest, campaign: str, known: dict[SharedKey, SharedStream]
) -> SharedStream:
    link = shared.prefix
    owner: Node | None = forest.owner(link.of, link.tokens) if link else None
    of = SharedKey(campaign, owner) if isinstance(owner, str) else None
    by_copy = shared.kind == "group" or (of is not None and known[of].by_copy)
    return SharedStream(
        SharedKey(campaign, shared.id),
        shared.kind,
        shared.tokens,
        of,
        leaves_at=link.tokens if link else 0,
        by_copy=by_copy,
    )
