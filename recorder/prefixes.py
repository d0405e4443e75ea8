"""What each call's prompt shares with earlier streams: from calls and their parts to prefixes (trace model, R3 to R5).

The number of tokens is that of the place where the paths part (`places.py`), the referent is the first stream that
passes there, and bounds are those of `template_bounds.py`. Outputs take part only for calls that arrived after they
were delivered; an output that begins like another one is counted and otherwise dropped. Where the server told the token
ids of prompts, what they share is exact, and only what lies in outputs is found as above.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.measured_tree import MeasuredTree
from rotoscope.recorder.numbering import NumberedPlaces
from rotoscope.recorder.places import Place
from rotoscope.recorder.shared_prefixes import SharedPrefixes
from rotoscope.recorder.template_bounds import ANSWER_START_TOKENS, Bounds
from rotoscope.traces.forest import Node
from rotoscope.traces.model import Prefix, PrefixSource


@dataclass(slots=True)
class Edge:
    """How a call hangs on the forest."""

    of: Node | None
    tokens: int
    source: PrefixSource
    low: int
    high: int
    place: Place
    """Where the paths part."""

    def prefix(self, prompt_tokens: int) -> Prefix:
        """Return it as it stands in a trace."""
        low, high = min(self.low, self.tokens), min(max(self.high, self.tokens), prompt_tokens)
        return Prefix(
            of=self.of,
            tokens=self.tokens,
            source=self.source,
            low=None if low == self.tokens else low,
            high=None if high == self.tokens else high,
        )


@dataclass(slots=True)
class PrefixFinder:
    """Find the edges of a run in the order of its calls."""

    run: SeenRun
    is_named: bool
    bounds: Bounds = field(init=False)
    measured: MeasuredTree = field(init=False)
    places: NumberedPlaces = field(init=False)
    shared: SharedPrefixes = field(init=False)
    edges: list[Edge] = field(default_factory=list)
    output_matches: int = 0
    """Outputs that begin like another stream."""
    _first_with: dict[int, SeenCall] = field(default_factory=dict)
    """By the last part of a prompt, the first call with it."""
    _longest_unseen: dict[tuple[int, int], int] = field(default_factory=dict)
    """By the last part and the length of a prompt, the longest stream with it whose output has no ids."""

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.run.tree, self.run.calls)
        self.measured = MeasuredTree(self.run.measured)
        self.places = NumberedPlaces(self.run, self.bounds, self.measured)
        self.shared = SharedPrefixes(self.places, self.is_named)
        for call in self.run.calls:
            self.edges.append(self._edge(call))
            self._visit(call)

    def _edge(self, call: SeenCall) -> Edge:
        found = self._usage_edge(call)
        return self._exact_edge(call, found) if call.number in self.run.exact else found

    def _usage_edge(self, call: SeenCall) -> Edge:
        """Find the stream that a prompt shares most with, by parts and usage.

        A prompt that is no repetition has a token of its own: another call may repeat it and then shares all of it. Plain
        text may end where another stream does.
        """
        end = self.places.ends[call.number]
        repeated = self._first_alike(call)
        if repeated is not None:
            return self._repetition(call, repeated, end)
        place: Place | None = end
        limit = self.places.prompt_tokens[call.number] - (not call.is_plain)
        unseen = self._unseen(call)
        while place is not None and limit:
            candidates = self._passing(place, call)
            if candidates:
                tokens, of = max(candidates, key=lambda candidate: candidate[0])
                return self._evidence(call, of, min(tokens, limit), place)
            if place is unseen:
                return Edge(None, 0, "opaque", 0, self.places.prompt_tokens[call.number], self.places.tree(call).root)
            place = place.parent
        return Edge(None, 0, "text", 0, 0, self.places.tree(call).root)

    def _unseen(self, call: SeenCall) -> Place | None:
        """Return the place behind what only the server has, where a call is the first to name it as its history."""
        index = self.run.tree.node(call.head).unseen
        return self.places.end_of(call, index + 1) if call.opened.is_opaque and index >= 0 else None

    def _first_alike(self, call: SeenCall) -> SeenCall | None:
        """Return the first call with the same prompt, unless the server counted it differently."""
        first = self._first_with.setdefault(call.head, call)
        tokens = self.places.prompt_tokens
        return first if first is not call and tokens[first.number] == tokens[call.number] else None

    def _repetition(self, call: SeenCall, first: SeenCall, place: Place) -> Edge:
        tokens = self.places.prompt_tokens[call.number]
        source: PrefixSource = "estimate" if call.reported_prompt_tokens is None else "usage"
        owner, low = self._owner(first.number, tokens)
        return Edge(owner, tokens, source, min(low, self.bounds.least(call, first)), tokens, place)

    def _passing(self, place: Place, call: SeenCall) -> list[tuple[int, Node]]:
        """Return the earlier streams that pass a place, with what they share with the call there; ties in order."""
        if place.position == 0:
            return []
        found: list[tuple[int, Node]] = []
        if place.shared is not None:
            found.append((min(place.position, self.shared.by_id[place.shared].tokens), place.shared))
        calls = {x: self.places.stream_tokens(x) for x in place.outputs if self.run.calls[x].end_ms <= call.start_ms}
        if place.prompt is not None:
            calls[place.prompt] = place.position
        found.extend((min(place.position, calls[x]), x) for x in sorted(calls))
        return found

    def _evidence(self, call: SeenCall, of: Node, tokens: int, place: Place) -> Edge:
        """Say how a common prefix is known and within which bounds."""
        source: PrefixSource = "estimate"
        if isinstance(of, int) and self._goes_on_behind(call, self.run.calls[of]):
            source = "assumed" if call.opened.previous == self.run.calls[of].opened.call else "text"
            if call.is_plain and call.reported_prompt_tokens is not None:
                source = "usage"
            if tokens < self.places.stream_tokens(of) and not call.is_plain:
                # The prompt is too short for the whole answer: what the template dropped of it stands at its start.
                tokens = min(tokens, self.places.prompt_tokens[of])
        owner, _ = self._owner(of, tokens)
        low, high = self._limits(call, owner)
        return Edge(owner, tokens, source, min(low, tokens), max(high, tokens), place)

    def _goes_on_behind(self, call: SeenCall, other: SeenCall) -> bool:
        """Whether a prompt holds another whole prompt and its answer, with or without thinking."""
        index = len(other.path)
        if other.answer is None or len(call.path) <= index:
            return False
        end = self.places.end_of(call, index + 1)
        with_thinking = (True, False) if other.shows_thinking else (False,)
        return any(self.places.answer(other, has_reasoning=kept)[-1] is end for kept in with_thinking)

    def _owner(self, of: Node, tokens: int) -> tuple[Node, int]:
        """Return the first stream that has the first `tokens` tokens of `of`, and how many of them it surely has."""
        node, low = of, tokens
        while True:
            before, shared, least = self._link(node)
            if before is None or tokens > shared:
                return node, low
            node, low = before, min(low, least)

    def _link(self, node: Node) -> tuple[Node | None, int, int]:
        if isinstance(node, int):
            edge = self.edges[node]
            return edge.of, edge.tokens, edge.low
        shared = self.shared.by_id[node]
        return (None if shared.of is None else shared.of.id), shared.common, shared.low

    def _limits(self, call: SeenCall, of: Node) -> tuple[int, int]:
        other = self.run.calls[of] if isinstance(of, int) else self.shared.by_id[of].first
        if other is call:
            return self.bounds.of_leading(call)
        return self.bounds.least(call, other), self.bounds.most(call, other)

    def _exact_edge(self, call: SeenCall, found: Edge) -> Edge:
        """Say exactly what a measured prompt shares with measured prompts.

        What lies behind another prompt, in its output, stays as it was found; the first call that goes on there says
        where that output is, for all others. So does what is shared with prompts that were not measured, unless it
        contradicts what was.
        """
        of, tokens = self.measured.enter(call.number, call.opened.call, self.places.prompt_tokens[call.number])
        high = tokens
        if isinstance(found.of, int) and found.tokens > tokens:
            if found.of not in self.run.exact:
                if self._measured_tokens(found.of, found.tokens) <= tokens + ANSWER_START_TOKENS:
                    return found
                high = found.high
            elif self._is_first_behind(call, found, tokens):
                return replace(found, low=tokens)
        if of is None:
            return replace(found, of=None, tokens=0, source="ids", low=0, high=high)
        if isinstance(of, int):
            tokens = min(tokens, self.places.stream_tokens(of))
        owner, low = self._owner(of, tokens)
        high = max(high, self._most_in_unseen_outputs(call, of, tokens))
        return replace(found, of=owner, tokens=tokens, source="ids", low=low, high=high)

    def _most_in_unseen_outputs(self, call: SeenCall, of: Node, tokens: int) -> int:
        """Return how many tokens a prompt of ids may share with streams whose whole prompt it begins with.

        The ids of their outputs are not known.
        """
        if not call.is_plain or not isinstance(of, int):
            return tokens
        unseen = self._longest_unseen.get((self.run.calls[of].head, tokens), tokens)
        return min(self.places.prompt_tokens[call.number], unseen)

    def _has_ids(self, call: SeenCall) -> bool:
        """Whether the ids of an output are known."""
        return call.answer is not None and self.run.tree[call.answer].is_ids

    def _measured_tokens(self, of: int, tokens: int) -> int:
        """Return how many tokens a prompt that shares `tokens` with a call would share with measured prompts."""
        node: Node | None = of
        while isinstance(node, int) and node not in self.run.exact:
            tokens = min(tokens, self.edges[node].tokens)
            node = self.edges[node].of
        return min(tokens, self.places.prompt_tokens[node]) if isinstance(node, int) else 0

    def _is_first_behind(self, call: SeenCall, found: Edge, tokens: int) -> bool:
        """Whether a measured prompt is the first that begins with the whole prompt of the call whose answer it holds.

        A later one finds the first, not the call: both pass the mark behind the answer.
        """
        assert isinstance(found.of, int)
        if found.source not in ("text", "usage") or tokens != self.places.prompt_tokens[found.of]:
            return False
        return self.measured.common_prefix(call.opened.call, self.run.calls[found.of].opened.call) == tokens

    def _visit(self, call: SeenCall) -> None:
        """Let the streams of a call pass their places."""
        self.measured.enter_output(call.number, call.opened.call)
        if not self._has_ids(call):
            prompt = call.head, self.places.prompt_tokens[call.number]
            stream_tokens = self.places.stream_tokens(call.number)
            self._longest_unseen[prompt] = max(self._longest_unseen.get(prompt, 0), stream_tokens)
        place: Place | None = self.places.ends[call.number]
        while place is not None and place.prompt is None:
            place.prompt = call.number
            place = place.parent
        if call.hides_thinking:
            return
        for index, step in enumerate(self.places.answer(call)):
            if index == 0 and step.is_visited:
                self.output_matches += 1
            step.outputs.append(call.number)
