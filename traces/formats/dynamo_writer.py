"""Write traces as a Dynamo request trace: a `request_end` record a call, a `tool_end` record a tool that was timed.

Branches are sessions with a parent; where they fork and join, and what was waited for, is in the times. The form is that
of `lib/llm/src/request_trace/types.rs` of ai-dynamo/dynamo at 0366e63, with all that its replay asks for (session,
arrival, output length, as many hashes as blocks: `lib/data-gen/src/request_trace/load.rs` at 89179d3). The replay of
ai-dynamo 1.6.1 was tried: it performs such a file, and reuses as much as this program says is best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.formats.block_ids import BlockIds, block_ids
from rotoscope.traces.formats.dynamo_records import SCHEMAS
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.written_times import WrittenTimes, behind_last_calls, has_clock, written_times
from rotoscope.traces.model import (
    Branch,
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelStart,
    ToolCall,
    ToolName,
    Trace,
    Wait,
)

LENGTHS = Aspect("prompt and output lengths", "kept")
CACHED = Aspect("cached tokens", "kept")
DOMAINS = Aspect("cache domains", "kept", "as models")
SHARED = Aspect("shared prefixes", "kept", "as hashes that sessions have in common, without their kind", "traces")
TIMES = Aspect("times", "approximated", "whole milliseconds")
ASSUMED = Aspect("missing times", "approximated", "as early as what is before allows")
NO_CLOCK = Aspect("when traces began", "approximated", "without a common clock all start together", "traces")
PREFIXES = Aspect("prefixes", "approximated", "cut to whole blocks")
BRANCHES = Aspect("branches", "approximated", "sessions with a parent; forks and joins are in the times", "branches")
TOOLS = Aspect("tools", "kept", "with their times", "tools")
GAP_TOOLS = Aspect("tools that nobody timed", "kept", "asked for by an answer; the gap is theirs", "tools")
WAITS = Aspect("waits", "approximated", "the time between requests, whatever the client did", "waits")
CHOICES = Aspect("choices of one request", "approximated", "a request each")
BOUNDS = Aspect("bounds of uncertain prefixes", "lost")
OUTPUTS = Aspect("reuse of outputs", "lost", "hashes are of prompts alone")
REASONING = Aspect("reasoning", "lost", "it is part of the output")
MESSAGES = Aspect("messages", "lost", unit="messages")
EMBEDDINGS = Aspect("embeddings", "lost", unit="requests")
ATTEMPTS = Aspect("attempts, media, auxiliary calls, how calls are linked", "lost", "a call like any other")
DROPS = Aspect("dropped caches", "lost", unit="events")
NO_CALL_AFTER = Aspect("waits", "lost", "no call of their branch follows", unit="waits")

WRITE_ASPECTS = (
    *(LENGTHS, CACHED, DOMAINS, SHARED, TOOLS, GAP_TOOLS),
    *(TIMES, ASSUMED, NO_CLOCK, PREFIXES, BRANCHES, WAITS, CHOICES),
    *(BOUNDS, OUTPUTS, REASONING, MESSAGES, EMBEDDINGS, ATTEMPTS, DROPS, NO_CALL_AFTER),
)

_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter"}
_BACKEND_FINISH = {"cancelled": "cancelled", "error": "error", "lost": "cancelled"}


def write_corpus(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the lines of a file, sorted by when requests came and tools ended."""
    ids = block_ids(members, block_size, with_partial=True)
    places = {
        (index, call.call): place
        for index, member in enumerate(members)
        for place, call in enumerate(member.trace.calls())
    }
    times = written_times(members)
    sessions = [_Sessions.of(index, member.trace, times[index]) for index, member in enumerate(members)]
    _note(members, times, block_size, fidelity)
    records: list[tuple[int, bool, int, int, Call | ToolCall]] = []
    """Each with its time; tools first, then requests in their order."""
    for rank, (index, call) in enumerate(calls_in_order(members)):
        records.append((round(times[index].calls[call.call][0]), True, rank, index, call))
    for index, session in enumerate(sessions):
        for tool in session.timed_tools if times[index].calls else ():
            records.append((round(times[index].tools[tool.tool_call_id][1]), False, len(records), index, tool))
    for _, _, rank, index, event in sorted(records, key=lambda record: record[:3]):
        if isinstance(event, Call):
            hashes = ids[index][places[index, event.call]]
            yield sessions[index].request(event, rank, hashes, block_size)
        else:
            yield sessions[index].tool(event)


@dataclass(slots=True)
class _Sessions:
    """The sessions of one trace."""

    index: int
    times: WrittenTimes
    parents: dict[Branch, Branch | None]
    with_calls: set[Branch | None]
    tools: dict[int | None, list[ToolCall]] = field(default_factory=dict)
    """By the call that asked for them."""

    @classmethod
    def of(cls, index: int, trace: Trace, times: WrittenTimes) -> _Sessions:
        parents: dict[Branch, Branch | None] = {}
        with_calls: set[Branch | None] = {None}
        tools: dict[int | None, list[ToolCall]] = {}
        for event in trace.events:
            if isinstance(event, ParallelStart):
                parents.update({(event.region, child): event.branch for child in range(event.num_branches)})
            elif isinstance(event, Call):
                with_calls.add(event.branch)
            elif isinstance(event, ToolCall):
                tools.setdefault(event.call, []).append(event)
        return cls(index, times, parents, with_calls, tools)

    @property
    def timed_tools(self) -> Iterator[ToolCall]:
        """Those that somebody timed."""
        return (tool for tools in self.tools.values() for tool in tools if not _is_gap(tool))

    def request(self, call: Call, rank: int, hashes: BlockIds, block_size: int) -> bytes:
        start_ms, end_ms = (round(ms) for ms in self.times.calls[call.call])
        request = {
            "request_id": f"request-{rank}",
            "model": f"model-{call.domain}",
            "input_tokens": call.prompt_tokens,
            "output_tokens": call.completion_tokens,
            "cached_tokens": call.cached_tokens,
            "request_received_ms": start_ms,
            "ttft_ms": call.ttft_ms,
            "total_time_ms": None if call.duration_ms is None else float(end_ms - start_ms),
            "replay": {
                "trace_block_size": block_size,
                "input_length": call.prompt_tokens,
                "input_sequence_hashes": hashes,
            },
            "finish_reason_metadata": self._finish(call),
        }
        return self._line("request_end", end_ms, call.branch, "dynamo", request=request)

    def tool(self, tool: ToolCall) -> bytes:
        start_ms, end_ms = (round(ms) for ms in self.times.tools[tool.tool_call_id])
        fields = {
            "tool_call_id": self._tool_id(tool),
            "tool_class": tool.tool_name,
            "started_at_unix_ms": start_ms,
            "ended_at_unix_ms": end_ms,
            "status": "succeeded",
            "duration_ms": float(end_ms - start_ms),
        }
        return self._line("tool_end", end_ms, tool.branch, "harness", tool=fields)

    def _line(self, event_type: str, at_ms: int, branch: Branch | None, source: str, **body: Any) -> bytes:
        event = {
            "schema": SCHEMAS[0],
            "event_type": event_type,
            "event_time_unix_ms": at_ms,
            "event_source": source,
            "agent_context": self._context(branch),
            **{name: _there(value) for name, value in body.items()},
        }
        return orjson.dumps({"timestamp": at_ms, "event": event}) + b"\n"

    def _context(self, branch: Branch | None) -> dict[str, str]:
        context = {"session_id": self._name(branch)}
        if branch is not None:
            parent = self.parents[branch]
            while parent not in self.with_calls:
                assert parent is not None
                parent = self.parents[parent]
            context["parent_session_id"] = self._name(parent)
        return context

    def _name(self, branch: Branch | None) -> str:
        return f"session-{self.index}" + (f"-{branch[0]}-{branch[1]}" if branch else "")

    def _tool_id(self, tool: ToolCall) -> str:
        return f"session-{self.index}-{tool.tool_call_id}"

    def _finish(self, call: Call) -> dict[str, Any] | None:
        tools = [tool for tool in self.tools.get(call.call, []) if tool.branch == call.branch]
        names: list[tuple[str | None, ToolName]] = []
        for name in call.tool_calls:
            tool = next((tool for tool in tools if tool.tool_name == name), None)
            names.append((None if tool is None else self._tool_id(tool), name))
            tools = [other for other in tools if other is not tool]
        names += ((self._tool_id(tool), tool.tool_name) for tool in tools)
        metadata = _there(
            {
                "finish_reason": _FINISH.get(call.finish_reason),
                "backend_finish_reason": _BACKEND_FINISH.get(call.finish_reason),
                "tool_calls": [
                    _there({"choice_index": 0, "tool_call_index": index, "id": id_, "name": name})
                    for index, (id_, name) in enumerate(names)
                ]
                or None,
            }
        )
        return metadata or None


def _is_gap(tool: ToolCall) -> bool:
    return tool.time_source == "gap" and tool.call is not None


def _there(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _note(members: Sequence[Member], times: Sequence[WrittenTimes], block_size: int, fidelity: Fidelity) -> None:
    for member, written in zip(members, times, strict=True):
        _note_trace(member.trace, block_size, fidelity)
        fidelity.note(ASSUMED, written.assumed)
    if len(members) > 1 and not has_clock(members):
        fidelity.note(NO_CLOCK, len(members))


def _note_trace(trace: Trace, block_size: int, fidelity: Fidelity) -> None:
    calls = list(trace.calls())
    prompts = {call.call: call.prompt_tokens for call in calls}
    last = sum(isinstance(event, Wait) for event in behind_last_calls(trace))
    fidelity.note(NO_CALL_AFTER, last)
    fidelity.note(WAITS, sum(isinstance(event, Wait) for event in trace.events) - last)
    fidelity.note(SHARED, bool(trace.shared_prefixes))
    for aspect in (LENGTHS, DOMAINS, TIMES):
        fidelity.note(aspect, len(calls))
    for call in calls:
        prefix = call.prefix
        fidelity.note(CACHED, call.cached_tokens is not None)
        fidelity.note(PREFIXES, bool(prefix.tokens % block_size) and prefix.tokens != call.prompt_tokens)
        fidelity.note(BOUNDS, prefix.least != prefix.greatest)
        fidelity.note(OUTPUTS, isinstance(prefix.of, int) and prefix.tokens > prompts[prefix.of])
        fidelity.note(REASONING, call.reasoning_tokens > 0 or call.reasoning_unsized)
        fidelity.note(CHOICES, call.request is not None)
        fidelity.note(ATTEMPTS, call.attempts not in (None, 1) or bool(call.media_tokens or call.link) or call.aux)
    for event in trace.events:
        if isinstance(event, ToolCall):
            fidelity.note(GAP_TOOLS if _is_gap(event) else TOOLS)
        elif isinstance(event, ParallelStart):
            fidelity.note(BRANCHES, event.num_branches)
        elif isinstance(event, Message | Embedding | DropKvCache):
            fidelity.note(
                {Message: MESSAGES, Embedding: EMBEDDINGS, DropKvCache: DROPS}[type(event)],
            )
