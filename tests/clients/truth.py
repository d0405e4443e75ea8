"""What a recording says of its calls, held against what the server saw of the same calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from clients.recorded import Recorded
from numpy.typing import NDArray

from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.traces import Call, Trace
from rotoscope.traces.bounds import PromptBounds

CUT_SHORT = ("cancelled", "error")
"""Where a call ended before its usage was told."""
Ids = NDArray[np.uint32]


@dataclass(frozen=True)
class TrueCall:
    """A call of the trace with the tokens that the server has of it."""

    call: Call
    generation: Generation

    @property
    def prompt(self) -> Ids:
        return self.generation.prompt_ids

    @property
    def stream(self) -> Ids:
        return np.concatenate([self.prompt, self.generation.output_ids[: self.generation.generated]])


@dataclass(frozen=True)
class Finding:
    """The common prefix of two calls, by the server and by the trace."""

    pair: tuple[int, int]
    true: int
    low: int
    high: int

    @property
    def holds(self) -> bool:
        return self.low <= self.true <= self.high


def true_calls(one: Recorded) -> list[TrueCall]:
    """Return each call of the trace with what the server saw of it.

    They are matched by their lengths and then by their order; of those without usage only the order is known.
    """
    waiting = [generation for request in one.seen for generation in request.generations]
    calls = list(one.trace.calls())
    found: dict[int, Generation] = {}
    for call in calls:
        lengths = call.prompt_tokens, call.completion_tokens
        fits = [g for g in waiting if (len(g.prompt_ids), g.generated) == lengths]
        if fits and call.finish_reason not in CUT_SHORT:
            found[call.call] = fits[0]
            waiting.remove(fits[0])
    for call in calls:
        if call.call not in found:
            assert call.finish_reason in CUT_SHORT, f"the server has seen no call like {call}"
            found[call.call] = waiting.pop(0)
    assert waiting == [], "the server has answered calls that are not in the trace"
    return [TrueCall(call, found[call.call]) for call in calls]


def pairs(trace: Trace, calls: Sequence[TrueCall]) -> Iterator[Finding]:
    """Yield every pair of prompts."""
    bounds = PromptBounds(trace)
    for a, b in combinations(calls, 2):
        true = common(a.prompt, b.prompt) if a.call.domain == b.call.domain else 0
        yield Finding((a.call.call, b.call.call), true, *bounds.common_prefix(a.call.call, b.call.call))


def findings(trace: Trace, calls: Sequence[TrueCall]) -> Iterator[Finding]:
    """Yield every pair of prompts, and every prompt with the stream that it is said to begin like."""
    yield from pairs(trace, calls)
    by_number = {one.call.call: one for one in calls}
    for one in calls:
        prefix = one.call.prefix
        if isinstance(prefix.of, int):
            true = common(by_number[prefix.of].stream, one.prompt)
            yield Finding((prefix.of, one.call.call), true, prefix.least, prefix.greatest)


def common(a: Ids, b: Ids) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
