"""What prompts would share with earlier streams if no line of them changed by itself (volatile.py).

The forest is of prompts as they were sent; these lengths stand beside it, on the calls where they are longer. They are
those of the last part that two streams have in common, in the tokens of the later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.prefixes import PrefixFinder
from rotoscope.traces.model import Prefix


@dataclass(slots=True)
class MaskedPrefixes:
    """Compare calls in the order of their numbers."""

    found: PrefixFinder
    _prompts: dict[str, int] = field(default_factory=dict)
    """By the digest of a part, the first call whose prompt passes it."""
    _answers: dict[str, list[int]] = field(default_factory=dict)
    """By the digest of a part, the calls whose whole outputs end there."""

    def all(self) -> dict[int, Prefix]:
        """Return what each call would share, for those where it is more than what was sent shares."""
        if not any(part.masked for part in self.found.run.tree.parts()):
            return {}
        longer: dict[int, Prefix] = {}
        for call in self.found.run.calls:
            prefix = self._prefix(call)
            if prefix is not None and prefix.tokens > self._sent(call):
                longer[call.number] = prefix
            self._add(call)
        return longer

    def _prefix(self, call: SeenCall) -> Prefix | None:
        prompt = self.found.places.prompt_tokens[call.number]
        for count in range(len(call.path), 0, -1):
            of = self._earlier(self._digest(call.path[count - 1]), call)
            if of is not None:
                end = prompt if count == len(call.path) else self.found.places.end_of(call, count).position
                tokens = min(end, prompt, self.found.places.stream_tokens(of))
                return Prefix(of, tokens, "estimate") if tokens else None
        return None

    def _sent(self, call: SeenCall) -> int:
        """Return what a prompt shares with earlier ones as it was sent; a shared prefix is no prompt until one has it."""
        edge = self.found.edges[call.number]
        shared = self.found.shared.by_id.get(edge.of) if isinstance(edge.of, str) else None
        return edge.tokens if shared is None or shared.first is not call else min(edge.tokens, shared.common)

    def _earlier(self, digest: str, call: SeenCall) -> int | None:
        answered = (x for x in self._answers.get(digest, ()) if self.found.run.calls[x].end_ms <= call.start_ms)
        return next(answered, None) if digest not in self._prompts else self._prompts[digest]

    def _add(self, call: SeenCall) -> None:
        for digest in self._new_digests(call):
            self._prompts[digest] = call.number
        if call.answer is not None and not call.hides_thinking:
            self._answers.setdefault(self._digest(call.answer), []).append(call.number)

    def _new_digests(self, call: SeenCall) -> Iterator[str]:
        """Yield the parts of a prompt that no earlier one passes, the last one first."""
        for part in reversed(call.path):
            digest = self._digest(part)
            if digest in self._prompts:
                return
            yield digest

    def _digest(self, part: int) -> str:
        seen = self.found.run.tree[part]
        return seen.masked or seen.digest
