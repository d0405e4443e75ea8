"""Whether two traces are of the same run, in whatever order its agents' calls came."""

from __future__ import annotations

import hashlib
from collections import Counter

from rotoscope.traces import Call, Forest, Trace

ROUNDS = 3


def calls_and_prefixes(trace: Trace) -> Counter[str]:
    """Return each call by its tokens and by what it shares with all others; two runs that are the same have the same.

    Calls are told apart as in colour refinement: one that shares other lengths, or the same with other calls, is another.
    """
    calls = list(trace.calls())
    forest = Forest.of_trace(trace)
    shared = [[forest.common_prefix(one.call, other.call) for other in calls] for one in calls]
    colours = [_digest(tokens_of(call)) for call in calls]
    for _ in range(ROUNDS):
        colours = [
            _digest((colour, sorted(zip(row, colours, strict=True))))
            for colour, row in zip(colours, shared, strict=True)
        ]
    return Counter(colours)


def tokens_of(call: Call) -> tuple[object, ...]:
    """Return what is known of a call by itself."""
    return (
        call.prompt_tokens,
        call.completion_tokens,
        call.reasoning_tokens,
        call.finish_reason,
        call.aux,
        call.attempts,
    )


def _digest(of: object) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()
