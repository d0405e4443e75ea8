"""What each call's prompt shares with earlier streams: from calls and their parts to prefixes (trace model, R3 to R5).

The number of tokens is that of the place where the paths part (`places.py`), the referent is the first stream that
passes there, and bounds are those of `template_bounds.py`. Outputs take part only for calls that arrived after they were
delivered; an output that begins like another one is counted and otherwise dropped.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.measured_tree import MeasuredTree
from rotoscope.recorder.places import END_MARK_TOKENS, Place, PlaceTree
from rotoscope.recorder.template_bounds import ANSWER_START_TOKENS, Bounds
from rotoscope.traces.forest import Node
from rotoscope.traces.model import Prefix, PrefixSource, SharedPrefix, SharedPrefixLink, TokenSource

MOST_COMPARED = 64
"""So many prompts that part at one place are compared with one another; further ones with the first of them."""


@dataclass(frozen=True, slots=True)
class RunForest:
    """The forest of a run; lists are by call number."""

    prompt_tokens: list[int]
    prompt_sources: list[TokenSource]
    prefixes: list[Prefix]
    shared: list[SharedPrefix]
    shared_of: list[str | None]
    """The shared prefix that each prompt begins with."""
    part_tokens: list[list[int]]
    """Of each part of each prompt, an estimate."""
    output_matches: int


@dataclass(slots=True)
class _Edge:
    """How a call hangs on the forest."""

    of: Node | None
    tokens: int
    source: PrefixSource
    low: int
    high: int
    place: Place


@dataclass(slots=True)
class _Shared:
    prefix: SharedPrefix
    first_call: int


@dataclass(slots=True)
class ForestBuilder:
    """Build the forest of one run, step by step in the order of its calls."""

    run: SeenRun
    named: bool
    """Whether ids of shared prefixes follow from their digests, so that they are the same in all runs of a campaign."""
    bounds: Bounds = field(init=False)
    measured: MeasuredTree = field(init=False)
    places: dict[int, PlaceTree] = field(default_factory=dict)
    ends: list[Place] = field(default_factory=list)
    """Where the prompt of each call ends."""
    prompt_tokens: list[int] = field(default_factory=list)
    edges: list[_Edge] = field(default_factory=list)
    shared: dict[int, _Shared] = field(default_factory=dict)
    shared_by_id: dict[Node, _Shared] = field(default_factory=dict)
    first_with: dict[int, SeenCall] = field(default_factory=dict)
    """By the last part of a prompt, the first call with it."""
    first_on: dict[int, SeenCall] = field(default_factory=dict)
    """By the last part of a shared prefix, the first measured call that begins with it."""
    followed: set[int] = field(default_factory=set)
    """Measured calls whose output a measured prompt goes on behind."""
    output_matches: int = 0

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.run.tree, self.run.calls)
        self.measured = MeasuredTree(self.run.measured)

    def build(self) -> RunForest:
        """Return the forest."""
        self._measure_places()
        self._number_places()
        for call in self.run.calls:
            self._enter_shared_prefix(call)
        for call in self.run.calls:
            self.edges.append(self._edge(call))
            self._visit(call)
        self._widen()
        self._widen_roots()
        return RunForest(
            prompt_tokens=self.prompt_tokens,
            prompt_sources=[call.prompt_source for call in self.run.calls],
            prefixes=[self._prefix(call) for call in self.run.calls],
            shared=[shared.prefix for shared in self.shared.values()],
            shared_of=[self._shared_of(call) for call in self.run.calls],
            part_tokens=[self._part_tokens(call) for call in self.run.calls],
            output_matches=self.output_matches,
        )

    def _tree(self, call: SeenCall) -> PlaceTree:
        if call.domain not in self.places:
            self.places[call.domain] = PlaceTree(self.run.tree)
        return self.places[call.domain]

    def _head(self, call: SeenCall) -> Place:
        return self._tree(call).end_of(call.path, len(call.path))

    def _measure_places(self) -> None:
        for call in self.run.calls:
            end = self._tree(call).answer_start(self._head(call))
            self.ends.append(end)
            if call.reported_prompt_tokens is None:
                continue
            if end.measured is None:
                end.measured = call.reported_prompt_tokens
            self._cap_shared_prefix(call)
            self._measure_answer(call, call.reported_prompt_tokens)
            self._raise_floors(call, call.reported_prompt_tokens)

    def _cap_shared_prefix(self, call: SeenCall) -> None:
        """A shared prefix ends where measured prompts that begin with it still are alike."""
        leading = self.run.tree.leading(call.path)
        if call.number not in self.run.exact or not leading:
            return
        first = self.first_on.setdefault(call.path[leading - 1], call)
        if first is not call:
            end = self._tree(call).end_of(call.path, leading)
            end.cap = min(end.cap, self.measured.common_prefix(first.opened.call, call.opened.call))

    def _measure_answer(self, call: SeenCall, prompt_tokens: int) -> None:
        """The answer's end is measured as it came, and as it is without its thinking where that was counted."""
        if call.answer is None or call.completion_source != "usage":
            return
        tree, head = self._tree(call), self._head(call)
        for has_reasoning in (False, True) if _shows_thinking(call) else (False,):
            dropped = 0 if has_reasoning else call.reasoning_tokens
            end = tree.steps(head, call.answer, has_reasoning=has_reasoning)[-1]
            if end.measured is None:
                end.measured = prompt_tokens + call.completion_tokens - dropped + END_MARK_TOKENS

    def _raise_floors(self, call: SeenCall, prompt_tokens: int) -> None:
        tree, floor = self._tree(call), prompt_tokens - ANSWER_START_TOKENS
        for count in range(len(call.path), 0, -1):
            if floor <= 0:
                return
            place = tree.end_of(call.path, count)
            place.floor = max(place.floor, floor)
            floor -= self.bounds.most_tokens(call.path[count - 1])

    def _number_places(self) -> None:
        for tree in self.places.values():
            tree.settle()
        calls = self.run.calls
        for call in calls:
            if call.reported_prompt_tokens is not None:
                self._tree(call).fill(self.ends[call.number])
        scales = self._scales()
        for call in calls:
            end = self.ends[call.number]
            self._tree(call).fill(end, scale=scales.get(call.domain, 1.0))
            self.prompt_tokens.append(call.reported_prompt_tokens or max(1, end.position))

    def _scales(self) -> dict[int, float]:
        """Return how many tokens the first counted prompt of each domain has for a token of weight."""
        scales: dict[int, float] = {}
        for call in self.run.calls:
            if call.domain not in scales and call.reported_prompt_tokens is not None:
                scales[call.domain] = call.reported_prompt_tokens / (self.ends[call.number].weight_from_root() or 1.0)
        return scales

    def _enter_shared_prefix(self, call: SeenCall) -> None:
        """Add the shared prefix that a prompt begins with when it is new."""
        leading = self.run.tree.leading(call.path)
        if leading == 0 or call.path[leading - 1] in self.shared:
            return
        last = call.path[leading - 1]
        end = self._tree(call).end_of(call.path, leading)
        if end.position == 0:
            return
        name = self._shared_id(last)
        before: Place = end
        while before.parent is not None and before.shared is None:
            before.shared = name
            before = before.parent
        of, tokens = before.shared, before.position
        if call.number in self.run.exact:
            stream, tokens = self.measured.enter(name, call.opened.call, end.position)
            of = None if stream is None else str(stream)
        link = SharedPrefixLink(of, min(tokens, end.position)) if of is not None and tokens else None
        self.shared[last] = _Shared(SharedPrefix(name, "system", end.position, link), call.number)
        self.shared_by_id[name] = self.shared[last]

    def _shared_id(self, part: int) -> str:
        if not self.named:
            return f"s{len(self.shared)}"
        return f"s{int(self.run.tree[part].digest, 16) % 10**9}"

    def _shared_of(self, call: SeenCall) -> str | None:
        leading = self.run.tree.leading(call.path)
        known = self.shared.get(call.path[leading - 1]) if leading else None
        return known.prefix.id if known else None

    def _edge(self, call: SeenCall) -> _Edge:
        """Find the stream that a prompt shares most with, from measured prompts where it is one."""
        found = self._usage_edge(call)
        return self._exact_edge(call, found) if call.number in self.run.exact else found

    def _exact_edge(self, call: SeenCall, found: _Edge) -> _Edge:
        """Say exactly what a measured prompt shares with measured prompts.

        What lies behind another prompt, in its output, stays as it was found; the first call that goes on there says
        where that output is, for all others.
        """
        of, tokens = self.measured.enter(call.number, call.opened.call, self.prompt_tokens[call.number])
        if isinstance(found.of, int) and found.tokens > tokens:
            if found.of not in self.run.exact:
                return found
            if self._is_first_behind(call, found, tokens):
                self.followed.add(found.of)
                return replace(found, low=tokens)
        if of is None:
            return replace(found, of=None, tokens=0, source="ids", low=0, high=0)
        owner = self._owner(of, tokens)
        low = tokens if not isinstance(owner, int) else min(tokens, self.prompt_tokens[owner])
        return replace(found, of=owner, tokens=tokens, source="ids", low=low, high=tokens)

    def _is_first_behind(self, call: SeenCall, found: _Edge, tokens: int) -> bool:
        """Whether a measured prompt is the first that begins with the whole prompt of the call whose answer it holds."""
        assert isinstance(found.of, int)
        if found.source != "text" or found.of in self.followed or tokens != self.prompt_tokens[found.of]:
            return False
        return self.measured.common_prefix(call.opened.call, self.run.calls[found.of].opened.call) == tokens

    def _usage_edge(self, call: SeenCall) -> _Edge:
        """Find the stream that a prompt shares most with, by parts and usage.

        A prompt that is no repetition has a token of its own: another call may repeat it and then shares all of it.
        """
        end = self.ends[call.number]
        repeated = self._first_alike(call)
        if repeated is not None:
            return self._repetition(call, repeated, end)
        place: Place | None = end
        limit = self.prompt_tokens[call.number] - 1
        while place is not None and limit:
            candidates = self._passing(place, call)
            if candidates:
                tokens, of = max(candidates, key=lambda candidate: candidate[0])
                return self._evidence(call, of, min(tokens, limit), place)
            place = place.parent
        return _Edge(None, 0, "text", 0, 0, self._tree(call).root)

    def _first_alike(self, call: SeenCall) -> SeenCall | None:
        """Return the first call with the same prompt, unless the server counted it differently."""
        first = self.first_with.setdefault(call.head, call)
        is_same = self.prompt_tokens[first.number] == self.prompt_tokens[call.number]
        return first if first is not call and is_same else None

    def _repetition(self, call: SeenCall, first: SeenCall, place: Place) -> _Edge:
        tokens = self.prompt_tokens[call.number]
        low = self.bounds.least(call, first)
        source: PrefixSource = "estimate" if call.reported_prompt_tokens is None else "usage"
        return _Edge(first.number, tokens, source, min(low, tokens), tokens, place)

    def _passing(self, place: Place, call: SeenCall) -> list[tuple[int, Node]]:
        """Return the earlier streams that pass a place, with what they share with the call there; ties in order."""
        if place.position == 0:
            return []
        found: list[tuple[int, Node]] = []
        if place.shared is not None:
            found.append((min(place.position, self.shared_by_id[place.shared].prefix.tokens), place.shared))
        calls = {x: self._stream_tokens(x) for x in place.outputs if self.run.calls[x].end_ms <= call.start_ms}
        if place.prompt is not None:
            calls[place.prompt] = place.position
        found.extend((min(place.position, calls[x]), x) for x in sorted(calls))
        return found

    def _stream_tokens(self, number: int) -> int:
        return self.prompt_tokens[number] + self.run.calls[number].completion_tokens

    def _evidence(self, call: SeenCall, of: Node, tokens: int, place: Place) -> _Edge:
        """Say how a common prefix is known and within which bounds."""
        source: PrefixSource = "estimate"
        if isinstance(of, int):
            other = self.run.calls[of]
            if self._is_growth(call, other):
                source = "text"
                if tokens < self._stream_tokens(of):
                    # The prompt is too short to hold the whole answer: what the template dropped stands at its start.
                    tokens = min(tokens, self.prompt_tokens[of])
        of_owner = self._owner(of, tokens)
        assert of_owner is not None
        low, high = self._limits(call, of_owner, source)
        return _Edge(of_owner, tokens, source, min(low, tokens), max(high, tokens), place)

    def _is_growth(self, call: SeenCall, other: SeenCall) -> bool:
        """Whether a prompt goes on behind another call's whole output."""
        if other.answer is None or _hides_thinking(other):
            return False
        end = self._tree(call).steps(self._head(other), other.answer)[-1]
        return end in self._ends_of(call, len(other.path))

    def _ends_of(self, call: SeenCall, index: int) -> tuple[Place, ...]:
        if len(call.path) <= index:
            return ()
        return (self._tree(call).end_of(call.path, index + 1),)

    def _owner(self, of: Node, tokens: int) -> Node | None:
        """Return the first stream that has the first `tokens` tokens of `of`."""
        node: Node | None = of
        while node is not None:
            if isinstance(node, int):
                before, shared = self.edges[node].of, self.edges[node].tokens
            else:
                link = self.shared_by_id[node].prefix.prefix
                before, shared = (None, 0) if link is None else (link.of, link.tokens)
            if tokens > shared:
                return node
            node = before
        return None

    def _limits(self, call: SeenCall, of: Node, source: PrefixSource) -> tuple[int, int]:
        """Return bounds of what a prompt shares with the stream `of`.

        A shared prefix is represented by the first call that begins with it.
        """
        if isinstance(of, int):
            other = self.run.calls[of]
            return self.bounds.least(call, other), self.bounds.most(call, other)
        first = self.run.calls[self.shared_by_id[of].first_call]
        if first.number == call.number:
            return self.bounds.of_leading(call)
        return self.bounds.least(call, first), self.bounds.most(call, first)

    def _visit(self, call: SeenCall) -> None:
        """Let the streams of a call pass their places."""
        place: Place | None = self.ends[call.number]
        while place is not None and place.prompt is None:
            place.prompt = call.number
            place = place.parent
        if call.answer is None or _hides_thinking(call):
            return
        for index, step in enumerate(self._tree(call).steps(self._head(call), call.answer)[1:]):
            if index == 0 and step.is_visited:
                self.output_matches += 1
            step.outputs.append(call.number)

    def _widen(self) -> None:
        """Let upper bounds hold between all prompts that hang on one stream at one place, not only with that stream."""
        groups: defaultdict[tuple[int, Node | None], list[SeenCall]] = defaultdict(list)
        for call in self.run.calls:
            edge = self.edges[call.number]
            groups[id(edge.place), edge.of].append(call)
        for (_, of), calls in groups.items():
            for later in range(1, len(calls)):
                for earlier in {
                    *range(min(later, MOST_COMPARED // 2)),
                    *range(max(0, later - MOST_COMPARED // 2), later),
                }:
                    self._widen_pair(calls[earlier], calls[later], is_rooted=of is not None)

    def _widen_roots(self) -> None:
        """Let upper bounds of the first calls of all trees hold between trees: a template may ignore what differs."""
        roots = [call for call in self.run.calls if not isinstance(self.edges[call.number].of, int)]
        for index, call in enumerate(roots):
            edge, limit = self.edges[call.number], self.prompt_tokens[call.number]
            if call.number in self.run.exact and all(other.number in self.run.exact for other in roots):
                continue
            if index > MOST_COMPARED:
                edge.high = limit
                continue
            for other in roots[:index]:
                if other.domain == call.domain:
                    most = limit if self.bounds.goes_on(call, other) else self.bounds.most(call, other)
                    edge.high = max(edge.high, min(most, limit))
            for shared in self.shared.values():
                first = self.run.calls[shared.first_call]
                if first.domain == call.domain and first is not call:
                    most = min(self.bounds.most(call, first), self.bounds.of_leading(first)[1])
                    edge.high = max(edge.high, min(most, limit))

    def _widen_pair(self, earlier: SeenCall, later: SeenCall, *, is_rooted: bool) -> None:
        most = self.bounds.most(later, earlier)
        exact = self.run.exact
        if earlier.number in exact and later.number in exact:
            return
        for call in (earlier, later) if is_rooted and earlier.number not in exact else (later,):
            edge = self.edges[call.number]
            edge.high = max(edge.high, min(most, self.prompt_tokens[call.number]))

    def _prefix(self, call: SeenCall) -> Prefix:
        edge = self.edges[call.number]
        high = min(edge.high, self.prompt_tokens[call.number])
        return Prefix(
            of=edge.of,
            tokens=edge.tokens,
            source=edge.source,
            low=None if edge.low == edge.tokens else edge.low,
            high=None if high == edge.tokens else high,
        )

    def _part_tokens(self, call: SeenCall) -> list[int]:
        tree, start, sizes = self._tree(call), 0, []
        for count in range(1, len(call.path) + 1):
            end = tree.end_of(call.path, count).position
            sizes.append(end - start)
            start = end
        return sizes


def _shows_thinking(call: SeenCall) -> bool:
    return call.end is not None and call.end.reasoning_bytes > 0


def _hides_thinking(call: SeenCall) -> bool:
    """Whether the output begins with thinking whose text was not shown."""
    return call.reasoning_tokens > 0 and not _shows_thinking(call)
