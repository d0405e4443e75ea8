"""Round the lengths of a trace so that its streams still share their beginnings in the same places.

What is rounded are not lengths but places: where a stream parts from another, where its prompt ends, where it ends. All
places on one stream are rounded by one function that never falls, so that the common prefix of any two streams becomes
the rounded place where they parted, partings may merge but never cross, and no place moves by as much as the step.

1. A place p > 0 goes to the nearest multiple of the step, at least one step; 0 stays 0.
2. An output that has tokens keeps at least one: where its end would fall on the end of its prompt, it is put one token
   behind, and so is every place behind it, on this stream and on those that go on from there, that would be less.
3. What a prompt would share if lines that change by themselves were left out is rounded like its other places.
4. Bounds of a prefix are rounded away from it. Sizes that are no places, such as those of messages, go to the nearest
   multiple by themselves, at least 1 unless they were 0.

Why no place moves by a whole step: by 1. a place goes up by less than a step and down by at most half of one, and by 2.
the end of an output is at most one token above its prompt's, which is at least one token before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rotoscope.traces.forest import Node, normalise
from rotoscope.traces.model import Call, Embedding, Message, Prefix, SharedPrefix, SharedPrefixLink, Trace, TraceEvent


def rounded(trace: Trace, step: int) -> Trace:
    """Return the trace with places and sizes in multiples of `step` tokens, but for outputs of a token (above)."""
    trace = normalise(trace)
    places: dict[Node, _Places] = {}
    shared_prefixes = tuple(_shared_prefix(one, step, places) for one in trace.shared_prefixes)
    calls = {call.call: _call(call, step, places) for call in trace.calls()}
    events = tuple(calls[one.call] if isinstance(one, Call) else _event(one, step) for one in trace.events)
    granularity = _granularity(trace.prefix_granularity, calls.values())
    return normalise(replace(trace, prefix_granularity=granularity, shared_prefixes=shared_prefixes, events=events))


@dataclass(frozen=True, slots=True)
class _Places:
    """The rounding function of one stream, for places behind the one where it parts from another."""

    step: int
    least: int
    """Where the parting is put, before which nothing behind it may be put."""
    end: int
    """Of the stream."""
    end_at_least: int = 0
    """Where the end is put even if it is rounded to less, because its output has tokens."""

    def __getitem__(self, place: int) -> int:
        if place == 0:
            return 0
        return max(self.least, nearest(place, self.step), self.end_at_least if place >= self.end else 0)

    def of_child(self, parting: int, end: int) -> _Places:
        """Return the function of a stream that parts from this one at a place and ends at another."""
        return _Places(self.step, max(self[parting], self.step), end)


def nearest(tokens: int, step: int) -> int:
    """Return the nearest multiple, of two that are equally near the greater one."""
    return (tokens + step // 2) // step * step


def size(tokens: int, step: int) -> int:
    """Return a size that is no place, rounded."""
    return max(nearest(tokens, step), min(tokens, 1))


def _shared_prefix(shared: SharedPrefix, step: int, places: dict[Node, _Places]) -> SharedPrefix:
    mine = places[shared.id] = _Places(step, step, shared.tokens)
    link = shared.prefix
    if link is not None:
        tokens = mine[link.tokens]
        low, high = _bounds(link, tokens, mine)
        link = replace(link, tokens=tokens, low=low, high=high)
    return replace(shared, tokens=mine[shared.tokens], prefix=link)


def _call(call: Call, step: int, places: dict[Node, _Places]) -> Call:
    root = _Places(step, step, 0)
    before = root if call.prefix.of is None else places[call.prefix.of]
    mine = before.of_child(call.prefix.tokens, call.stream_tokens)
    prompt = mine[call.prompt_tokens]
    mine = places[call.call] = replace(mine, end_at_least=prompt + min(call.completion_tokens, 1))
    output = mine[call.stream_tokens] - prompt
    return replace(
        call,
        prompt_tokens=prompt,
        completion_tokens=output,
        reasoning_tokens=_reasoning(call, mine, output),
        media_tokens=None if call.media_tokens is None else min(size(call.media_tokens, step), prompt),
        cached_tokens=None if call.cached_tokens is None else min(nearest(call.cached_tokens, step), prompt),
        prefix=_prefix(call.prefix, mine[call.prefix.tokens], before, prompt),
        masked=None if call.masked is None else _masked(call.masked, mine, places, prompt),
    )


def _masked(masked: Prefix, mine: _Places, places: dict[Node, _Places], prompt: int) -> Prefix:
    """Return the prefix in a forest of its own, whose partings are not those of the streams as they were sent."""
    if masked.of is None:
        return masked
    of = places[masked.of]
    end = of[of.end]
    return _prefix(masked, end if masked.tokens == of.end else min(mine[masked.tokens], end), of, prompt)


def _prefix(prefix: Prefix, tokens: int, of: _Places, prompt: int) -> Prefix:
    tokens = min(tokens, prompt)
    low, high = _bounds(prefix, tokens, of)
    return replace(prefix, tokens=tokens, low=low, high=None if high is None else min(high, prompt))


def _reasoning(call: Call, places: _Places, output: int) -> int:
    end = places[call.prompt_tokens + call.reasoning_tokens] - places[call.prompt_tokens]
    return min(max(end, min(call.reasoning_tokens, 1)), output)


def _bounds(link: Prefix | SharedPrefixLink, tokens: int, places: _Places) -> tuple[int | None, int | None]:
    """Return low and high; a bound that is the number itself stays so, others give way by up to a step."""
    low = high = None
    if link.low is not None:
        low = tokens if link.low == link.tokens else min(link.low // places.step * places.step, tokens)
    if link.high is not None:
        above = -(-link.high // places.step) * places.step
        high = tokens if link.high == link.tokens else max(above, places[link.high], tokens)
    return low, high


def _event(event: TraceEvent, step: int) -> TraceEvent:
    match event:
        case Message():
            media = None if event.media_tokens is None else size(event.media_tokens, step)
            return replace(event, tokens=size(event.tokens, step), media_tokens=media)
        case Embedding():
            return replace(event, prompt_tokens=size(event.prompt_tokens, step))
    return event


def _granularity(granularity: int, calls: Iterable[Call]) -> int:
    """Return the step in which prefixes are known; 1 is every token."""
    partial = [
        one.prefix.tokens for one in calls if one.prefix.source != "assumed" and one.prefix.tokens != one.prompt_tokens
    ]
    return math.gcd(granularity, *partial)
