"""Small traces of the shapes that an engine's cache meets: growth, forks, rewinds, compaction, parallel branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.traces import Call, ParallelEnd, ParallelStart, Prefix, SharedPrefix, Trace, TraceEvent
from rotoscope.traces.model import Branch

SYSTEM = SharedPrefix("s0", "system", 300)


@dataclass
class Builder:
    """Append calls by what they share; numbers are given in order."""

    events: list[TraceEvent] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def call(
        self,
        of: int | str,
        tokens: int | None,
        fresh: int,
        output: int,
        *,
        reasoning: int = 0,
        branch: Branch | None = None,
    ) -> int:
        """Add a call that shares `tokens` (None: all) of a stream and goes on with `fresh` tokens of its own."""
        whole = SYSTEM.tokens if isinstance(of, str) else self.calls[of].stream_tokens
        shared = whole if tokens is None else tokens
        number = len(self.calls)
        call = Call(
            call=number,
            conversation_id=0,
            message_index=0,
            prompt_tokens=shared + fresh,
            completion_tokens=output,
            reasoning_tokens=reasoning,
            prefix=Prefix(of, shared, "ids"),
            branch=branch,
        )
        self.calls.append(call)
        self.events.append(call)
        return number

    def trace(self) -> Trace:
        return Trace(
            trace_id="00000000",
            campaign="11111111",
            token_source="usage",
            shared_prefixes=(SYSTEM,),
            events=tuple(self.events),
        )


def single_branch(turns: int = 8) -> Trace:
    build = Builder()
    last = build.call("s0", None, 120, 24)
    for turn in range(1, turns):
        last = build.call(last, None, 40 + turn, 16 + turn)
    return build.trace()


def thinking_dropped() -> Trace:
    """Each answer thinks, and the next prompt begins like the last prompt only."""
    build = Builder()
    last = build.call("s0", None, 120, 40, reasoning=30)
    for _ in range(4):
        last = build.call(last, build.calls[last].prompt_tokens, 35, 40, reasoning=30)
    return build.trace()


def forking() -> Trace:
    """Three continuations of one history, one after another, each extended once more."""
    build = Builder()
    root = build.call("s0", None, 200, 20)
    heads = [build.call(root, None, 50, 20) for _ in range(3)]
    for head in heads:
        build.call(head, None, 30, 12)
    return build.trace()


def rewinding() -> Trace:
    """The history is cut inside an output, inside a prompt, back to the system prompt, and a prompt is repeated."""
    build = Builder()
    first = build.call("s0", None, 200, 40)
    second = build.call(first, None, 100, 40)
    build.call(first, build.calls[first].prompt_tokens + 17, 80, 20)
    build.call(first, 420, 60, 20)
    build.call("s0", None, 70, 20)
    build.call("s0", 150, 70, 20)
    repeated = build.calls[second]
    build.call(second, repeated.prompt_tokens, 0, 20)
    return build.trace()


def rewinding_further_each_time_less() -> Trace:
    """A rewind far back, then one less far into the same history."""
    build = Builder()
    first = build.call("s0", None, 200, 40)
    build.call(first, None, 100, 40)
    build.call(first, 420, 60, 20)
    build.call(first, build.calls[first].prompt_tokens + 17, 80, 20)
    return build.trace()


def parallel(children: int = 3) -> Trace:
    """A fan-out of children with a system prompt in common, two turns each, joined by the parent."""
    build = Builder()
    parent = build.call("s0", None, 100, 20)
    build.events.append(ParallelStart(region=0, num_branches=children))
    heads = [build.call("s0", None, 150, 24, branch=(0, index)) for index in range(children)]
    for index, head in enumerate(heads):
        build.call(head, None, 60, 24, branch=(0, index))
    build.events.append(ParallelEnd(region=0))
    build.call(parent, None, 90, 20)
    return build.trace()


SHAPES: Sequence[tuple[str, Trace]] = (
    ("single branch", single_branch()),
    ("thinking dropped", thinking_dropped()),
    ("forking", forking()),
    ("rewinding", rewinding()),
    ("parallel", parallel()),
)
