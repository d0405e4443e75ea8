"""The places of a run with their numbers of tokens: what the server counted is put in, the rest follows (places.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.measured_tree import MeasuredTree
from rotoscope.recorder.places import END_MARK_TOKENS, Place, PlaceTree
from rotoscope.recorder.template_bounds import Bounds


@dataclass(slots=True)
class NumberedPlaces:
    """Where the prompts and answers of a run pass, and how many tokens stand before each place."""

    run: SeenRun
    bounds: Bounds
    measured: MeasuredTree
    trees: dict[int, PlaceTree] = field(default_factory=dict)
    """By cache domain."""
    ends: list[Place] = field(default_factory=list)
    """Where the prompt of each call ends."""
    prompt_tokens: list[int] = field(default_factory=list)
    """Of each call: what the server counted, else an estimate."""
    _first_measured_on: dict[int, SeenCall] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for call in self.run.calls:
            self.ends.append(self.tree(call).prompt_end(call.path))
            if call.reported_prompt_tokens is not None:
                self._measure(call, call.reported_prompt_tokens)
        self._raise_floors()
        for tree in self.trees.values():
            tree.settle()
        self._fill()

    def tree(self, call: SeenCall) -> PlaceTree:
        """Return the places of a call's domain."""
        if call.domain not in self.trees:
            rendering = self.run.renderings[call.domain]
            self.trees[call.domain] = PlaceTree(self.run.tree, self.run.sizes, rendering)
        return self.trees[call.domain]

    def head(self, call: SeenCall) -> Place:
        """Return the place behind the last message of a prompt."""
        return self.end_of(call, len(call.path))

    def end_of(self, call: SeenCall, count: int) -> Place:
        """Return the place behind the first `count` parts of a prompt."""
        return self.tree(call).end_of(call.path, count)

    def answer(self, call: SeenCall, *, has_reasoning: bool | None = None) -> list[Place]:
        """Return the places that a call's output passes behind its prompt; none where its text is not known."""
        if call.answer is None:
            return []
        steps = self.tree(call).steps(self.head(call), call.answer, has_reasoning=has_reasoning)
        return steps if self.run.tree[call.answer].role == "text" else steps[1:]

    def stream_tokens(self, number: int) -> int:
        """Return the length of a call's prompt and output."""
        return self.prompt_tokens[number] + self.run.calls[number].completion_tokens

    def part_tokens(self, call: SeenCall, index: int) -> int:
        """Return the tokens of one part of a prompt."""
        return self.end_of(call, index + 1).position - self.end_of(call, index).position

    def _measure(self, call: SeenCall, prompt_tokens: int) -> None:
        end = self.ends[call.number]
        if end.measured is None:
            end.measured = prompt_tokens
        self._measure_answer(call, prompt_tokens)
        self._cap_shared_prefix(call)

    def _measure_answer(self, call: SeenCall, prompt_tokens: int) -> None:
        """Measure an answer's end as it came, and as it is without its thinking where that was counted."""
        if call.completion_source != "usage" or call.end is None:
            return
        forms = {True: 0} if call.shows_thinking else {False: call.reasoning_tokens * call.hides_thinking}
        if call.shows_thinking and call.end.reasoning_tokens is not None:
            forms[False] = call.reasoning_tokens
        for has_reasoning, dropped in forms.items():
            places = self.answer(call, has_reasoning=has_reasoning)
            if places and places[-1].measured is None:
                places[-1].measured = prompt_tokens + call.completion_tokens - dropped + self._end_mark(call)

    def _end_mark(self, call: SeenCall) -> int:
        """Return by how many tokens an answer that is sent back is longer than its output.

        A template writes its end mark behind it; of plain text the mark that ended it is no text.
        """
        part = None if call.answer is None else self.run.tree[call.answer]
        if part is None or part.role != "text":
            return END_MARK_TOKENS
        if part.is_ids:
            return part.most_tokens - call.completion_tokens
        return -END_MARK_TOKENS if call.finish_reason == "stop" and call.completion_tokens else 0

    def _cap_shared_prefix(self, call: SeenCall) -> None:
        """Let a shared prefix end where measured prompts that begin with it still are alike."""
        leading = self.run.tree.node(call.head).leading
        if call.number not in self.run.exact or not leading:
            return
        first = self._first_measured_on.setdefault(call.path[leading - 1], call)
        if first is not call:
            end = self.end_of(call, leading)
            end.cap = min(end.cap, self.measured.common_prefix(first.opened.call, call.opened.call))

    def _raise_floors(self) -> None:
        """Put no part's end before the least that follows from the prompts that pass it."""
        floored: set[int] = set()
        for call in self.run.calls:
            for index in range(len(call.path) - 1, -1, -1):
                part = call.path[index]
                if part in floored:
                    break
                floored.add(part)
                place = self.end_of(call, index + 1)
                place.floor = max(place.floor, self.bounds.floor(part))

    def _fill(self) -> None:
        """Number what counted prompts pass first, then the others."""
        for call in sorted(self.run.calls, key=lambda x: x.reported_prompt_tokens is None):
            self.tree(call).fill(self.ends[call.number])
        for call in self.run.calls:
            self.prompt_tokens.append(call.reported_prompt_tokens or max(1, self.ends[call.number].position))
