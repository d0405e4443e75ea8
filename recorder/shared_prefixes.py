"""The shared prefixes of a run: system messages with tools, as streams that stand before all calls (trace model, R7).

A shared prefix ends where the tools end. It is represented by the first call that begins with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.numbering import NumberedPlaces
from rotoscope.recorder.places import Place
from rotoscope.traces.model import MAX_COUNT, SharedId, SharedPrefix, SharedPrefixLink

IDS = 10**15
"""How many ids there are in a campaign. Two of n shared prefixes get one id with a chance of about n² / (2 * IDS):
one in a million at 45,000. Within a run that is seen, across runs it cannot be."""


@dataclass(slots=True)
class Shared:
    """A shared prefix in the making."""

    id: SharedId
    first: SeenCall
    tokens: int
    of: Shared | None = None
    """The shared prefix that it begins like."""
    common: int = 0
    """How many tokens both begin with."""
    low: int = 0
    high: int = 0

    def prefix(self) -> SharedPrefix:
        """Return it as it stands in a trace."""
        link = None
        if self.of is not None and self.common:
            low, high = min(self.low, self.common), min(max(self.high, self.common), MAX_COUNT)
            link = SharedPrefixLink(
                self.of.id,
                self.common,
                low=None if low == self.common else low,
                high=None if high == self.common else high,
            )
        return SharedPrefix(self.id, "system", self.tokens, link)


@dataclass(slots=True)
class SharedPrefixes:
    """All shared prefixes of a run, in the order in which they are first used."""

    places: NumberedPlaces
    is_named: bool
    """Whether ids follow from digests, so that they are the same in all runs of a campaign."""
    by_id: dict[SharedId, Shared] = field(default_factory=dict)
    _by_part: dict[int, Shared] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for call in self.places.run.calls:
            leading = self.places.run.tree.node(call.head).leading
            if leading and call.path[leading - 1] not in self._by_part:
                self._add(call, call.path[leading - 1], self.places.end_of(call, leading))

    def __iter__(self) -> Iterator[Shared]:
        return iter(self.by_id.values())

    def of(self, call: SeenCall) -> Shared | None:
        """Return the shared prefix that a prompt begins with."""
        leading = self.places.run.tree.node(call.head).leading
        return self._by_part.get(call.path[leading - 1]) if leading else None

    def _add(self, call: SeenCall, part: int, end: Place) -> None:
        if end.position == 0:
            return
        shared = self._by_part[part] = Shared(self._new_id(part), call, end.position)
        self.by_id[shared.id] = shared
        before: Place = end
        while before.parent is not None and before.shared is None:
            before.shared = shared.id
            before = before.parent
        run, measured = self.places.run, self.places.measured
        if call.number in run.exact:
            stream, tokens = measured.enter(shared.id, call.opened.call, end.position)
            if stream is not None:
                shared.of, shared.common = self.by_id[str(stream)], tokens
                shared.low = shared.high = tokens
                return
            if all(other.first.number in run.exact for other in self):
                return  # measured, and like none of the others
        self._link(shared, before)

    def _link(self, shared: Shared, place: Place) -> None:
        """Let a shared prefix begin like another of its domain; a template begins all prompts alike."""
        of = self.by_id.get(place.shared) if place.shared is not None else self._first_of(shared)
        if of is not None and of is not shared:
            shared.of, shared.common = of, max(1, min(place.position, of.tokens, shared.tokens))

    def _first_of(self, shared: Shared) -> Shared | None:
        return next((x for x in self if x.first.domain == shared.first.domain), None)

    def _new_id(self, part: int) -> SharedId:
        if not self.is_named:
            return f"s{len(self.by_id)}"
        digest, tries = int(self.places.run.tree[part].digest, 16), count()
        return next(free for i in tries if (free := f"s{(digest + i) % IDS}") not in self.by_id)
