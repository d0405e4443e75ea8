"""Places in prompts, and the one number of tokens that each of them has.

A place is a point that prompts can pass: the end of a part, a border inside its text, or the end of the template's
words that begin an answer, which is where a whole prompt ends. Places form a tree; where the paths of two streams part,
the number of that place is the length of their common prefix. Numbers are found once a recording is complete:

1. Measured places come first: P of a call where its prompt ends, P + O (and the answer's end mark) behind its answer.
   A place is never behind a measured place that follows it.
2. The others lie between the nearest measured ones of the first call that passes them, by the weight of what stands
   between: the sizes of the texts (part_sizes.py) and what the server's template adds to them (rendering.py).

Numbers never fall along a path, so the common prefixes of all streams are consistent (trace model, R5).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rotoscope.recorder.part_sizes import PartSizes
from rotoscope.recorder.part_tree import PartTree
from rotoscope.recorder.rendering import ANSWER_HEADER_TOKENS, Rendering
from rotoscope.traces.model import MAX_COUNT

END_MARK_TOKENS = 1
"""An answer's end is marked; prompts that go on behind it share at least that."""


class Place:
    """One place of the tree."""

    __slots__ = (
        "cap",
        "children",
        "floor",
        "is_elastic",
        "is_filled",
        "measured",
        "outputs",
        "parent",
        "position",
        "prompt",
        "shared",
        "weight",
    )

    def __init__(self, parent: Place | None, weight: float) -> None:
        self.parent = parent
        self.weight = weight
        """Tokens from the parent to here, roughly."""
        self.children: dict[Hashable, Place] = {}
        self.measured: int | None = None
        self.floor = 0
        """It is not before this."""
        self.cap = MAX_COUNT
        """It is not behind this."""
        self.position = 0
        self.is_filled = False
        self.is_elastic = False
        """Whether what stands before it is of no known size, and takes what others leave."""
        self.shared: str | None = None
        """The first shared prefix that passes here."""
        self.prompt: int | None = None
        """The first call whose prompt passes here."""
        self.outputs: list[int] = []
        """Calls whose outputs pass here."""

    @property
    def is_visited(self) -> bool:
        return self.prompt is not None or self.shared is not None or bool(self.outputs)


class PlaceTree:
    """The places of one cache domain."""

    def __init__(self, tree: PartTree, sizes: PartSizes | None = None, rendering: Rendering | None = None) -> None:
        self._tree = tree
        self._sizes = sizes or PartSizes(tree, {}, None)
        self._rendering = rendering or Rendering()
        self.root = Place(None, 0)
        self.root.is_filled = True
        self._places: list[Place] = []
        self._ends: dict[int, Place] = {}

    def end_of(self, path: Sequence[int], count: int) -> Place:
        """Return the place behind the first `count` parts of a prompt."""
        if count == 0:
            return self.root
        known = self._ends.get(path[count - 1])
        if known is None:
            start = count - 1
            while start and path[start - 1] not in self._ends:
                start -= 1
            known = self.root if start == 0 else self._ends[path[start - 1]]
            for part in path[start:count]:
                known = self._ends[part] = self.steps(known, part)[-1]
        return known

    def answer_start(self, head: Place) -> Place:
        """Return the place where a whole prompt ends: behind what the template writes before an answer."""
        return self._child(head, "answer", ANSWER_HEADER_TOKENS)

    def prompt_end(self, path: Sequence[int]) -> Place:
        """Return the place where a whole prompt ends; plain text ends with itself."""
        head = self.end_of(path, len(path))
        return head if self._tree[path[-1]].role == "text" else self.answer_start(head)

    def steps(self, before: Place, part: int, *, has_reasoning: bool | None = None) -> list[Place]:
        """Return the places of a part behind `before`, its end last.

        Thinking stands at the start of an answer: with and without it answers part where they begin. `has_reasoning`
        asks for the same answer with or without.
        """
        seen = self._tree[part]
        reasoning = seen.reasoning_bytes > 0 if has_reasoning is None else has_reasoning
        places: list[Place] = []
        weight = self._rendering.message
        if seen.role == "assistant":
            before = self.answer_start(before)
            places.append(before)
            weight = max(float(END_MARK_TOKENS), weight - ANSWER_HEADER_TOKENS)
            weight += self._rendering.call * seen.has_calls
        text = self._text(part, has_reasoning=reasoning)
        once = self._rendering.once if before is self.root and seen.role != "text" else 0.0
        start = 0
        for digest, end in zip(self._tree.border_digests(part), seen.border_ends(), strict=True):
            here = once + text * (end - start) / seen.loose_bytes
            before = self._child(before, (seen.role, reasoning, digest), here)
            places.append(before)
            start, once = end, 0.0
        if seen.role == "text" and places:
            return places
        places.append(self._child(before, (seen.role, reasoning, "end"), weight if start else once + weight + text))
        places[-1].is_elastic = seen.role == "opaque"
        return places

    def _text(self, part: int, *, has_reasoning: bool) -> float:
        size = self._sizes.text(part) + (self._sizes.reasoning(part) if has_reasoning else 0.0)
        return size * self._rendering.ratio

    def _child(self, parent: Place, label: Hashable, weight: float) -> Place:
        place = parent.children.get(label)
        if place is None:
            place = parent.children[label] = Place(parent, weight)
            self._places.append(place)
        return place

    def settle(self) -> None:
        """Give measured places their numbers, once all of them are told; limits reach from them to all others."""
        for place in reversed(self._places):
            assert place.parent is not None
            if place.measured is not None:
                place.cap = min(place.cap, place.measured)
            place.parent.cap = min(place.parent.cap, place.cap)
        for place in self._places:
            assert place.parent is not None
            place.floor = max(place.floor, place.parent.floor)
            if place.measured is not None:
                place.position = place.cap

    def fill(self, last: Place) -> None:
        """Give every place up to `last` its number."""
        run: list[Place] = []
        place: Place | None = last
        while place is not None and not place.is_filled:
            run.append(place)
            place = place.parent
        assert place is not None
        run.reverse()
        start = place.position
        while run:
            until = next((i for i, step in enumerate(run) if step.measured is not None), len(run) - 1)
            stretch, run = run[: until + 1], run[until + 1 :]
            _share_out(start, stretch)
            start = stretch[-1].position


def _share_out(start: int, stretch: list[Place]) -> None:
    """Number the places of a stretch by weight, up to its measured end when it has one."""
    last, scale, left = stretch[-1], 1.0, 0.0
    if last.measured is not None:
        total, elastic = sum(step.weight for step in stretch), sum(step.is_elastic for step in stretch)
        left = max(0.0, last.position - start - total) / elastic if elastic else 0.0
        scale = 1.0 if left else (last.position - start) / (total or 1.0)
    weight = 0.0
    for step in stretch:
        weight += step.weight + left * step.is_elastic
        if step.measured is None:
            step.position = int(min(max(start + round(weight * scale), step.floor), step.cap))
        step.is_filled = True
