"""Write Weka traces (AgentX JSON): one session a file, block ids of its own, times in seconds.

Where calls, sub-agents and gaps stand is said by `weka_layout.py`, which blocks are the same by `block_ids.py`. Block
lists cover whole blocks only, as in the published files, unless the partial last block is asked for too. Two models
never have a block id in common.

A sub-agent's `t` is its start, and the times of its requests are from the start of the run: read as the field reads
times that are not less than `t`. One that nobody waits for has no duration and is `async_launched`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from rotoscope.traces.corpus import Member
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.block_ids import BlockIds, block_ids, reaching_into_outputs
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import writable_ms
from rotoscope.traces.formats.weka_layout import Layout, PlacedAgent, PlacedCall, lay_out
from rotoscope.traces.formats.written_times import behind_last_calls
from rotoscope.traces.model import (
    Call,
    DropKvCache,
    Embedding,
    FinishReason,
    Message,
    ParallelEnd,
    ToolCall,
    Trace,
    Wait,
)

BLOCK_SIZE = 64
"""Of all published files."""

LENGTHS = Aspect("prompt and output lengths", "kept")
DOMAINS = Aspect("cache domains", "kept", "as models, numbered")
TIMES = Aspect("times of requests", "kept")
DURATIONS = Aspect("durations of answers", "kept")
PREFIXES = Aspect("prefixes", "kept", "as block ids")
AGENTS = Aspect("branches", "kept", "as sub-agents", "branches")
SYSTEM = Aspect("sizes of system prefixes", "kept", unit="prefixes")
CUT_PREFIXES = Aspect("prefixes that end within a block", "approximated", "down to whole blocks")
ASSUMED_TIMES = Aspect("times that are not recorded", "approximated", "as early as what is before allows")
GAPS = Aspect("tools and waits", "approximated", "one gap between two requests", "tools and waits")
NO_CALL_AFTER = Aspect("tools and waits", "lost", "no request of their line follows", "tools and waits")
REASONING = Aspect("reasoning", "approximated", "that there was some, but not how much")
NESTED = Aspect("branches inside branches", "approximated", "as sub-agents of the root", "branches")
JOINS = Aspect("joins", "approximated", "by their times only", "regions")
SILENT = Aspect("branches without a call", "approximated", "as a gap, where no sub-agent runs beside them", "branches")
SHARED = Aspect("what traces share", "lost", "block ids hold in one file", "shared prefixes")
OUTPUTS = Aspect("reuse of outputs", "lost", "block ids are of prompts alone")
BOUNDS = Aspect("bounds of prefixes", "lost", "the best value is taken for exact")
REASONS = Aspect("other reasons of ends", "lost", "the format knows end, length and tools")
EVIDENCE = Aspect("cached tokens, attempts, side calls, choices of one request, how calls are linked", "lost")
MESSAGES = Aspect("messages", "lost", "the format has none", "messages")
NAMES = Aspect("which tool ran", "lost", "the format has no names", "tools")
EMBEDDINGS = Aspect("embeddings", "lost", unit="embeddings")
DROPS = Aspect("dropped caches", "lost", unit="drops")

WRITE_ASPECTS = (
    *(LENGTHS, DOMAINS, TIMES, DURATIONS, PREFIXES, AGENTS, SYSTEM),
    *(CUT_PREFIXES, ASSUMED_TIMES, GAPS, REASONING, NESTED, JOINS, SILENT),
    *(SHARED, NO_CALL_AFTER, OUTPUTS, BOUNDS, REASONS, EVIDENCE, MESSAGES, NAMES, EMBEDDINGS, DROPS),
)

_STOPS: dict[FinishReason, str] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def write_trace(trace: Trace, fidelity: Fidelity, *, block_size: int = BLOCK_SIZE, with_partial: bool = False) -> bytes:
    """Return the bytes of a file; `with_partial` gives the last block of a prompt an id where it is not full."""
    trace = normalise(trace)
    layout = lay_out(trace)
    (ids,) = block_ids([Member(name="", trace=trace)], block_size, with_partial=with_partial)
    by_call = dict(zip((call.call for call in trace.calls()), ids, strict=True))
    entries = [
        _agent(entry, number, by_call, trace) if isinstance(entry, PlacedAgent) else _request(entry, by_call)
        for number, entry in _numbered(layout)
    ]
    header = {
        "id": trace.trace_id,
        "models": _models(placed.call for placed in layout.calls),
        "block_size": block_size,
        "hash_id_scope": "local",
        "tool_tokens": 0,
        "system_tokens": _system_tokens([p for p in layout.entries if isinstance(p, PlacedCall)], trace),
        "totals": _totals(layout),
    }
    _note(trace, layout, block_size, fidelity)
    return _file(header, entries)


def _numbered(layout: Layout) -> Iterable[tuple[int, PlacedCall | PlacedAgent]]:
    """Yield the entries with the number of sub-agents up to each."""
    agents = 0
    for entry in layout.entries:
        agents += isinstance(entry, PlacedAgent)
        yield agents, entry


def _file(header: dict[str, Any], entries: Sequence[dict[str, Any]]) -> bytes:
    keys = b",\n".join(b"%b: %b" % (orjson.dumps(key), orjson.dumps(value)) for key, value in header.items())
    requests = b",\n".join(b" " + orjson.dumps(entry) for entry in entries)
    return b"{\n" + keys + b',\n"requests": [\n' + requests + b"\n]\n}\n"


def _request(placed: PlacedCall, by_call: dict[int, BlockIds]) -> dict[str, Any]:
    call = placed.call
    request: dict[str, Any] = {
        "t": _seconds(placed.at_ms),
        "type": "n" if call.ttft_ms is None else "s",
        "model": _model(call),
        "in": call.prompt_tokens,
        "out": call.completion_tokens,
        "hash_ids": by_call[call.call],
        "input_types": ["tool_result" if placed.brings_result else "text"],
        "output_types": _output_types(call),
        "stop": _STOPS.get(call.finish_reason, ""),
    }
    times = {"api_time": call.duration_ms, "think_time": placed.gap_ms, "ttft": call.ttft_ms}
    return request | {key: _seconds(value) for key, value in times.items() if value is not None}


def _output_types(call: Call) -> list[str]:
    asks = call.finish_reason == "tool_calls" or bool(call.tool_calls)
    thinks = call.reasoning_unsized or call.reasoning_tokens > 0
    says = call.completion_tokens > call.reasoning_tokens
    return [kind for kind, there in (("thinking", thinks), ("text", says), ("tool_use", asks)) if there]


def _agent(agent: PlacedAgent, number: int, by_call: dict[int, BlockIds], trace: Trace) -> dict[str, Any]:
    calls = [placed.call for placed in agent.calls]
    tokens = sum(call.stream_tokens for call in calls)
    return {
        "t": _seconds(agent.starts_at_ms),
        "type": "subagent",
        "agent_id": f"agent_{number:03}",
        "subagent_type": "agent",
        "duration_ms": int(writable_ms(agent.end_ms) - agent.starts_at_ms) if agent.is_awaited else None,
        "total_tokens": tokens if agent.is_awaited else None,
        "tool_use_count": agent.tools if agent.is_awaited else None,
        "status": "completed" if agent.is_awaited else "async_launched",
        "requests": [_request(placed, by_call) for placed in agent.calls],
        "models": _models(calls),
        "tool_tokens": 0,
        "system_tokens": _system_tokens(agent.calls, trace),
    }


def _model(call: Call) -> str:
    return f"model{call.domain}"


def _models(calls: Iterable[Call]) -> list[str]:
    return list(dict.fromkeys(_model(call) for call in calls))


def _system_tokens(line: Sequence[PlacedCall], trace: Trace) -> int:
    """Return how long a system prefix the first prompt of a line begins with."""
    shared = {prefix.id: prefix for prefix in trace.shared_prefixes}
    of, tokens = (line[0].call.prefix.of, line[0].call.prefix.tokens) if line else (None, 0)
    while isinstance(of, str) and shared[of].kind != "system":
        link = shared[of].prefix
        of, tokens = (link.of, min(link.tokens, tokens)) if link else (None, 0)
    return tokens if isinstance(of, str) else 0


def _totals(layout: Layout) -> dict[str, Any]:
    parent = [entry.call for entry in layout.entries if isinstance(entry, PlacedCall)]
    inner = [placed.call for agent in layout.agents for placed in agent.calls]
    parts = {"parent_tokens": parent, "subagent_tokens": inner, "combined_tokens": parent + inner}
    sums: dict[str, Any] = {
        name: {
            "input": sum(call.prompt_tokens for call in calls),
            "output": sum(call.completion_tokens for call in calls),
        }
        for name, calls in parts.items()
    }
    return sums | {"subagent_count": len(layout.agents)}


def _seconds(milliseconds: float) -> float:
    """Return seconds, to the microsecond: the rest is noise of the conversion."""
    return round(writable_ms(milliseconds) / 1000, 6)


def _note(trace: Trace, layout: Layout, block_size: int, fidelity: Fidelity) -> None:
    calls, events = list(trace.calls()), trace.events
    cut = sum(call.prefix.tokens % block_size > 0 for call in calls)
    fidelity.note(LENGTHS, len(calls))
    fidelity.note(DOMAINS, len(calls))
    fidelity.note(TIMES, len(calls) - layout.assumed_times)
    fidelity.note(DURATIONS, sum(call.duration_ms is not None for call in calls))
    fidelity.note(PREFIXES, len(calls) - cut)
    fidelity.note(AGENTS, len(layout.agents))
    fidelity.note(CUT_PREFIXES, cut)
    fidelity.note(ASSUMED_TIMES, layout.assumed_times)
    awaited = {agent.branch for agent in layout.agents if agent.is_awaited}
    last = sum(event.branch not in awaited for event in behind_last_calls(trace))
    fidelity.note(GAPS, sum(isinstance(event, ToolCall | Wait) for event in events) - last)
    fidelity.note(NO_CALL_AFTER, last)
    fidelity.note(REASONING, sum(call.reasoning_tokens > 0 for call in calls))
    fidelity.note(NESTED, sum(agent.is_nested for agent in layout.agents))
    fidelity.note(JOINS, sum(isinstance(event, ParallelEnd) for event in events))
    fidelity.note(SILENT, layout.silent_branches)
    fidelity.note(SYSTEM, sum(prefix.kind == "system" for prefix in trace.shared_prefixes))
    fidelity.note(SHARED, len(trace.shared_prefixes))
    fidelity.note(OUTPUTS, reaching_into_outputs(trace))
    fidelity.note(BOUNDS, sum(call.prefix.low is not None or call.prefix.high is not None for call in calls))
    fidelity.note(REASONS, sum(call.finish_reason not in _STOPS and call.finish_reason != "unknown" for call in calls))
    fidelity.note(EVIDENCE, sum(_has_evidence(call) for call in calls))
    for kind, aspect in ((Message, MESSAGES), (ToolCall, NAMES), (Embedding, EMBEDDINGS), (DropKvCache, DROPS)):
        fidelity.note(aspect, sum(isinstance(event, kind) for event in events))


def _has_evidence(call: Call) -> bool:
    is_told = not (call.cached_tokens is call.attempts is call.request is None)
    return is_told or call.aux or call.link is not None
