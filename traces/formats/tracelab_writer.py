"""Write traces as TraceLab has them: a round a line, with the hit that a cache that forgets nothing would report.

A branch is a session of its own. The form is that of the sample rows of uw-syfi/TraceLab at 0b8a262, with the keys that
AIPerf tells the format by (`tracelab_trace.py` of ai-dynamo/aiperf at 2f0eba5). Both were tried: the loader of AIPerf
0.13.0 makes as many sessions and requests of such a file, and TraceLab's export to CSV the rows that we write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from rotoscope.traces.corpus import Member
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
REASONING = Aspect("reasoning lengths", "kept")
DOMAINS = Aspect("cache domains", "kept", "as models")
TOOLS = Aspect("tools", "kept", "under an answer, from the call to its result", "tools")
GAP_TOOLS = Aspect("tools that nobody timed", "kept", "under an answer, without times", "tools")
PREFIXES = Aspect("prefixes", "approximated", "by their length alone; what they are of is not said")
TIMES = Aspect("times", "approximated", "whole milliseconds")
ASSUMED = Aspect("missing times", "approximated", "as early as what is before allows")
NO_CLOCK = Aspect("when traces began", "approximated", "without a common clock all start together", "traces")
BRANCHES = Aspect("branches", "approximated", "sessions of their own", "branches")
WAITS = Aspect("waits", "approximated", "the time between rounds, as if a person wrote meanwhile", "waits")
NO_CALL_AFTER = Aspect("waits", "lost", "no call of their branch follows", unit="waits")
STRAY_TOOLS = Aspect("tools that no answer asked for", "lost", unit="tools")
BOUNDS = Aspect("bounds of uncertain prefixes", "lost")
FIRST_TOKENS = Aspect("times to the first token", "lost")
FINISH = Aspect("finish reasons", "lost")
CACHED = Aspect("cached tokens", "lost", "the hit is that of a cache that forgets nothing")
OTHERS = Aspect("messages, embeddings and dropped caches", "lost", unit="events")

WRITE_ASPECTS = (
    *(LENGTHS, REASONING, DOMAINS, TOOLS, GAP_TOOLS),
    *(PREFIXES, TIMES, ASSUMED, NO_CLOCK, BRANCHES, WAITS),
    *(STRAY_TOOLS, NO_CALL_AFTER, BOUNDS, FIRST_TOKENS, FINISH, CACHED, OTHERS),
)
PROVIDER = "rotoscope"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Session:
    """The calls of a branch."""

    number: int
    trace: Trace
    times: WrittenTimes
    calls: tuple[Call, ...]

    def extent_ms(self, call: Call) -> tuple[int, int]:
        start_ms, end_ms = self.times.calls[call.call]
        return round(start_ms), round(end_ms)


def write_corpus(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the lines of a file, session by session."""
    sessions = list(sessions_of(members, fidelity))
    _note_rounds(sessions, fidelity)
    tools_of = {id(trace): _tools_by_call(trace) for trace in traces_of(sessions)}
    for session in sessions:
        tools = tools_of[id(session.trace)]
        previous: Call | None = None
        for index, call in enumerate(session.calls):
            asked = tools.get(call.call, [])
            after_tools = previous is not None and bool(tools.get(previous.call))
            row = _round(session, index, call, asked, input_kind="tool_result" if after_tools else "user_message")
            yield orjson.dumps(row) + b"\n"
            previous = call


def sessions_of(members: Sequence[Member], fidelity: Fidelity) -> Iterator[Session]:
    """Yield the calls of each branch with calls, and note what becomes of the rest of the traces."""
    number = 0
    for member, times in zip(members, written_times(members), strict=True):
        fidelity.note(ASSUMED, times.assumed)
        branches: dict[Branch | None, list[Call]] = {}
        for event in member.trace.events:
            if isinstance(event, Call):
                branches.setdefault(event.branch, []).append(event)
            elif isinstance(event, Message | Embedding | DropKvCache):
                fidelity.note(OTHERS)
            elif isinstance(event, ParallelStart):
                fidelity.note(BRANCHES, event.num_branches)
        for calls in branches.values():
            yield Session(number, member.trace, times, tuple(calls))
            number += 1
    if len(members) > 1 and not has_clock(members):
        fidelity.note(NO_CLOCK, len(members))


def _tools_by_call(trace: Trace) -> dict[int, list[ToolCall | ToolName]]:
    """Return the tools that each call asked for: those that ran, and the names of those of which nothing is known."""
    tools: dict[int, list[ToolCall | ToolName]] = {}
    names: dict[int, Counter[ToolName]] = {call.call: Counter(call.tool_calls) for call in trace.calls()}
    for event in trace.events:
        if isinstance(event, ToolCall) and event.call is not None:
            tools.setdefault(event.call, []).append(event)
            names[event.call].subtract([event.tool_name])
    for call, left in names.items():
        if +left:
            tools.setdefault(call, []).extend((+left).elements())
    return tools


def _round(
    session: Session, index: int, call: Call, tools: Sequence[ToolCall | ToolName], *, input_kind: str
) -> dict[str, Any]:
    start_ms, end_ms = session.extent_ms(call)
    hit = call.prefix.tokens
    events = [(input_kind, start_ms)]
    if call.reasoning_tokens or call.reasoning_unsized:
        events.append(("reasoning", end_ms))
    if call.completion_tokens > call.reasoning_tokens or len(events) == 1:
        events.append(("text", end_ms))
    events += (("tool_call", end_ms) for _ in tools)
    name = f"{PROVIDER}:session-{session.number}"
    return {
        "provider": PROVIDER,
        "project": "project-0",
        "session_id": name,
        "round_index": index,
        "round_id": f"round-{session.number}-{index}",
        "model": f"model-{call.domain}",
        "input_tokens_total": call.prompt_tokens,
        "prefix_tokens": hit,
        "newly_append_tokens": call.prompt_tokens - hit,
        "output_tokens": call.completion_tokens,
        "reasoning_output_tokens": None if call.reasoning_unsized else call.reasoning_tokens,
        "timing_events": [{"event_type": kind, "timestamp": _iso(at_ms)} for kind, at_ms in events],
        "tools": [_tool(session, call, number, tool) for number, tool in enumerate(tools)],
        "trace_key": f"{name}:{index}",
    }


def _tool(session: Session, call: Call, number: int, tool: ToolCall | ToolName) -> dict[str, Any]:
    start_ms = end_ms = None
    if isinstance(tool, ToolCall) and tool.time_source != "gap":
        start_ms, end_ms = (round(ms) for ms in session.times.tools[tool.tool_call_id])
    return {
        "tool_index": number,
        "tool_name": tool.tool_name if isinstance(tool, ToolCall) else tool,
        "tool_call_id": f"session-{session.number}-call-{call.call}-{number}",
        "emitted_at": None if start_ms is None else _iso(start_ms),
        "result_at": None if end_ms is None else _iso(end_ms),
        "tool_wall_latency_ms": None if start_ms is None or end_ms is None else end_ms - start_ms,
        "tool_internal_latency_ms": None,
    }


def _iso(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _note_rounds(sessions: Sequence[Session], fidelity: Fidelity) -> None:
    note_calls(sessions, (LENGTHS, DOMAINS, PREFIXES, TIMES), fidelity)
    for session in sessions:
        for call in session.calls:
            fidelity.note(REASONING, call.reasoning_tokens > 0)
    for trace in traces_of(sessions):
        last = sum(isinstance(event, Wait) for event in behind_last_calls(trace))
        fidelity.note(NO_CALL_AFTER, last)
        fidelity.note(WAITS, sum(isinstance(event, Wait) for event in trace.events) - last)
        for event in trace.events:
            if isinstance(event, ToolCall):
                timed = GAP_TOOLS if event.time_source == "gap" else TOOLS
                fidelity.note(STRAY_TOOLS if event.call is None else timed)


def traces_of(sessions: Sequence[Session]) -> list[Trace]:
    """Return the traces that sessions are of, each once."""
    return list({id(session.trace): session.trace for session in sessions}.values())


def note_calls(sessions: Sequence[Session], aspects: Sequence[Aspect], fidelity: Fidelity) -> None:
    """Note what becomes of all calls, and of what only some have."""
    for session in sessions:
        for aspect in aspects:
            fidelity.note(aspect, len(session.calls))
        for call in session.calls:
            fidelity.note(BOUNDS, call.prefix.least != call.prefix.greatest)
            fidelity.note(FIRST_TOKENS, call.ttft_ms is not None)
            fidelity.note(FINISH, call.finish_reason != "unknown")
            fidelity.note(CACHED, call.cached_tokens is not None)
