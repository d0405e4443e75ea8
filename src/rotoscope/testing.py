"""Traces for tests: state what matters, the rest is a plain run of one agent.

trace = make_trace(turns=3, isl=100)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rotoscope.traces.forest import normalise
from rotoscope.traces.model import (
    NO_PREFIX,
    Call,
    Message,
    Prefix,
    SharedPrefix,
    ToolCall,
    Trace,
    TraceEvent,
)
from rotoscope.traces.validation import validate

TRACE_ID = "0000000000000001"
CAMPAIGN = "00000000000000aa"
TOOL_TURN = {"finish_reason": "tool_calls", "tool_calls": ("tool0",)}
LAST_TURN = {"finish_reason": "stop"}


def make_call(call: int = 0, isl: int = 100, *, osl: int = 20, prefix: Prefix = NO_PREFIX, **fields: Any) -> Call:
    """Return a call; `fields` are those of the model, by name."""
    place = {"conversation_id": 0, "message_index": 2 * call + 2}
    return Call(call=call, prompt_tokens=isl, completion_tokens=osl, prefix=prefix, **place | fields)


def trace_of(*events: TraceEvent, shared_prefixes: Sequence[SharedPrefix] = (), **header: Any) -> Trace:
    """Return a valid trace of these events; `header` are fields of the trace, by name."""
    ids = {"trace_id": TRACE_ID, "campaign": CAMPAIGN, "token_source": "usage"}
    trace = Trace(**ids | header, shared_prefixes=tuple(shared_prefixes), events=events)
    validate(trace)
    return trace


def make_trace(
    turns: int = 1,
    isl: int = 100,
    *,
    osl: int = 20,
    new: int = 30,
    system: int = 40,
    tool_ms: float = 50.0,
    call_ms: float = 100.0,
) -> Trace:
    """Return the trace of an agent that calls the model and runs one tool, turn by turn, in one conversation.

    The first prompt has `isl` tokens and begins with a shared system prompt of `system` tokens; every later one is the
    whole stream before it and `new` tokens more. A call takes `call_ms`, the tool between two calls `tool_ms`.
    """
    if not 0 <= system < isl:
        raise ValueError(f"expected 0 <= system < isl, found system {system} and isl {isl}")
    events: list[TraceEvent] = [
        Message(
            conversation_id=0, message_index=0, role="system", tokens=system, system_prompt_id="s0" if system else None
        ),
        Message(conversation_id=0, message_index=1, role="user", tokens=isl - system),
    ]
    prefix = Prefix("s0", system, "ids") if system else NO_PREFIX
    for turn in range(turns):
        stream = isl + turn * (osl + new) + osl
        times = {"at_ms": turn * (call_ms + tool_ms), "duration_ms": call_ms}
        end: dict[str, Any] = TOOL_TURN if turn + 1 < turns else LAST_TURN
        events.append(make_call(turn, stream - osl, osl=osl, prefix=prefix, **times, **end))
        if turn + 1 < turns:
            events += _tool(turn, tokens=new, at_ms=times["at_ms"] + call_ms, duration_ms=tool_ms)
        prefix = Prefix(turn, stream, "ids")
    shared = [SharedPrefix("s0", "system", system)] if system else []
    return normalise(trace_of(*events, shared_prefixes=shared))


def _tool(turn: int, *, tokens: int, at_ms: float, duration_ms: float) -> Iterator[TraceEvent]:
    """The tool that the call of a turn asked for, and its answer."""
    yield ToolCall(tool_call_id=f"t{turn}", tool_name="tool0", duration_ms=duration_ms, call=turn, at_ms=at_ms)
    yield Message(conversation_id=0, message_index=2 * turn + 3, role="tool", tokens=tokens)
