"""Write traces as vllm-vcr records them: a meta line, then a request a line in the order in which they ended.

The file says what came to one engine: prompts by their blocks, arrivals, and how long the tokens took, evenly spread
between first and last. The form is that of `crates/sim-trace/src/trace.rs` of neuralmagic/vllm-vcr at 4b460a1; its reader
was tried, its replay was not. Ids stand for blocks, they are no hashes of tokens: the replay by arrivals makes prompts from
them, the match with live prompts finds nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.formats.block_ids import block_ids
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.written_times import Extent, has_clock, written_times
from rotoscope.traces.model import (
    Call,
    DropKvCache,
    Embedding,
    FinishReason,
    Message,
    ToolCall,
    Trace,
    Wait,
)

LENGTHS = Aspect("prompt and output lengths", "kept")
CACHED = Aspect("cached tokens", "kept")
TIMES = Aspect("arrivals and durations", "kept")
FIRST_TOKENS = Aspect("times to the first token", "kept")
SHARED = Aspect("shared prefixes", "kept", "as hashes in common, without their kind", "traces")
PREFIXES = Aspect("prefixes", "approximated", "cut to whole blocks")
NO_CACHED = Aspect("unknown cached tokens", "approximated", "as the prefix, in whole blocks")
NO_FIRST_TOKENS = Aspect("unknown times to the first token", "approximated", "as long as any other token took")
ASSUMED = Aspect("missing times", "approximated", "as early as what is before allows")
NO_CLOCK = Aspect("when traces began", "approximated", "without a common clock all start together", "traces")
FINISH = Aspect("finish reasons", "approximated", "tools and filters as stop")
SESSIONS = Aspect("sessions and branches", "lost", "arrivals and prompts that grow remain", "traces")
GAPS = Aspect("tools and waits", "lost", "only arrivals are written", "events")
DOMAINS = Aspect("cache domains", "lost", "they only have no hashes in common")
BOUNDS = Aspect("bounds of uncertain prefixes", "lost")
OUTPUTS = Aspect("reuse of outputs", "lost", "hashes are of prompts alone")
REASONING = Aspect("reasoning", "lost", "it is part of the output")
OTHERS = Aspect("messages, embeddings and dropped caches", "lost", unit="events")

WRITE_ASPECTS = (
    *(LENGTHS, CACHED, TIMES, FIRST_TOKENS, SHARED),
    *(PREFIXES, NO_CACHED, NO_FIRST_TOKENS, ASSUMED, NO_CLOCK, FINISH),
    *(SESSIONS, GAPS, DOMAINS, BOUNDS, OUTPUTS, REASONING, OTHERS),
)

_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "content_filter": "stop",
    "cancelled": "abort",
    "lost": "abort",
    "error": "error",
}


def write_corpus(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the lines of a file."""
    ids = block_ids(members, block_size, with_partial=False)
    places = [{call.call: place for place, call in enumerate(member.trace.calls())} for member in members]
    times = written_times(members)
    _note(members, block_size, fidelity)
    fidelity.note(ASSUMED, sum(one.assumed for one in times))
    calls = [(index, call, times[index].calls[call.call]) for index, call in calls_in_order(members)]
    running = _running([extent for _, _, extent in calls])
    yield orjson.dumps({"meta": {"source": "rotoscope", "block_size": block_size}}) + b"\n"
    for place in sorted(range(len(calls)), key=lambda place: calls[place][2][1]):
        index, call, (start_ms, _) = calls[place]
        record = {
            "prompt_tokens": call.prompt_tokens,
            "cached_tokens": _cached_tokens(call, block_size),
            "output_tokens": call.completion_tokens,
            **_token_times(call),
            "concurrency": running[place],
            "arrival_ms": round(start_ms, 3),
            "block_hashes": ids[index][places[index][call.call]] or None,
            "finish_reason": _FINISH.get(call.finish_reason),
        }
        yield orjson.dumps({name: value for name, value in record.items() if value is not None}) + b"\n"


def _running(extents: Sequence[Extent]) -> list[int]:
    """Return how many requests were under way when each came, itself included."""
    running = [0] * len(extents)
    ends: list[float] = []
    for place in sorted(range(len(extents)), key=lambda place: extents[place][0]):
        start_ms, end_ms = extents[place]
        while ends and ends[0] <= start_ms:
            heapq.heappop(ends)
        heapq.heappush(ends, end_ms)
        running[place] = len(ends)
    return running


def _cached_tokens(call: Call, block_size: int) -> int:
    if call.cached_tokens is not None:
        return call.cached_tokens
    return min(call.prefix.tokens, call.prompt_tokens - 1) // block_size * block_size


def _token_times(call: Call) -> dict[str, Any]:
    duration_ms = call.duration_ms or 0.0
    first_ms = duration_ms / max(call.completion_tokens, 1) if call.ttft_ms is None else call.ttft_ms
    if call.completion_tokens <= 1:
        return {"ttft_ms": first_ms}
    gaps = call.completion_tokens - 1
    return {"ttft_ms": first_ms, "itl_summary": {"mean_ms": max(duration_ms - first_ms, 0.0) / gaps, "count": gaps}}


def _note(members: Sequence[Member], block_size: int, fidelity: Fidelity) -> None:
    if len(members) > 1 and not has_clock(members):
        fidelity.note(NO_CLOCK, len(members))
    for member in members:
        _note_trace(member.trace, block_size, fidelity)


def _note_trace(trace: Trace, block_size: int, fidelity: Fidelity) -> None:
    calls = list(trace.calls())
    prompts = {call.call: call.prompt_tokens for call in calls}
    fidelity.note(SESSIONS)
    fidelity.note(SHARED, bool(trace.shared_prefixes))
    fidelity.note(DOMAINS, len(calls) if len({call.domain for call in calls}) > 1 else 0)
    fidelity.note(LENGTHS, len(calls))
    for call in calls:
        prefix = call.prefix
        fidelity.note(CACHED if call.cached_tokens is not None else NO_CACHED)
        fidelity.note(FIRST_TOKENS if call.ttft_ms is not None else NO_FIRST_TOKENS)
        fidelity.note(TIMES, call.at_ms is not None and call.duration_ms is not None)
        fidelity.note(PREFIXES, bool(prefix.tokens % block_size))
        fidelity.note(FINISH, call.finish_reason in ("tool_calls", "content_filter", "lost"))
        fidelity.note(BOUNDS, prefix.least != prefix.greatest)
        fidelity.note(OUTPUTS, isinstance(prefix.of, int) and prefix.tokens > prompts[prefix.of])
        fidelity.note(REASONING, call.reasoning_tokens > 0 or call.reasoning_unsized)
    for event in trace.events:
        if isinstance(event, ToolCall | Wait):
            fidelity.note(GAPS)
        elif isinstance(event, Message | Embedding | DropKvCache):
            fidelity.note(OTHERS)
