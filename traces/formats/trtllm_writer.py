"""Write TensorRT-LLM traces: the bare events that its replay takes, and no key of ours.

Traces with messages keep them, with what that replay needs to put the recorded prompts together (`trtllm_sizes.py`);
others, and those of which more replays alike then, get messages that their prompts are put together from
(`trtllm_prompts.py`).
Regions and their order are what that replay can follow (`trtllm_order.py`). What it performs otherwise than it was is
listed by `trtllm_unlike.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import writable_ms
from rotoscope.traces.formats.trtllm_events import MAX_MESSAGES, Path
from rotoscope.traces.formats.trtllm_order import Fork, Join, Order, Placed, Step, calls_of, ordered
from rotoscope.traces.formats.trtllm_prompts import MadeMessage, PromptMaker
from rotoscope.traces.formats.trtllm_replay import recorded_prompts, replayed_prompts
from rotoscope.traces.formats.trtllm_sizes import Sizes, sizes_of
from rotoscope.traces.model import (
    Branch,
    Call,
    DropKvCache,
    Embedding,
    FinishReason,
    Message,
    Role,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)

LENGTHS = Aspect("prompt, output and reasoning lengths", "kept")
TOOLS = Aspect("tools", "kept", "with their durations", "tools")
REGIONS = Aspect("regions", "kept", "as parallel regions", "regions")
MESSAGES = Aspect("messages", "kept", unit="messages")
SYSTEM = Aspect("shared prefixes", "kept", "as system prompts with an id", "prefixes")
DROPS = Aspect("dropped caches", "kept", "which only a server of TensorRT-LLM knows", "drops")
MADE = Aspect("prefixes", "approximated", "by messages made so that prompts part where they did")
TOLD = Aspect("prefixes", "approximated", "by the messages: what these do not say is not there")
REMADE = Aspect("messages", "approximated", "made anew: then more calls replay as they were", "messages")
WAITS = Aspect("waits", "approximated", "as tools of the name wait", "waits")
EMPTY = Aspect("answers without a token", "approximated", "as answers of one token")
HISTORY = Aspect("answers from before the trace", "approximated", "as messages of the user", "messages")
MERGED = Aspect("regions that overlap", "approximated", "as one region", "regions")
UNJOINED = Aspect("regions that are never joined", "approximated", "joined when their branch is over", "regions")
ORDER = Aspect("order of events", "approximated", "one branch after the other", "traces")
TIMES = Aspect("times of requests and durations of answers", "lost", "the format has no clock")
DOMAINS = Aspect("models beside the first", "lost", "all calls go to one model")
BOUNDS = Aspect("bounds and sources of prefixes", "lost")
REASONS = Aspect("other reasons of ends", "lost", "the format knows stop, length, tools and filter")
EVIDENCE = Aspect("cached tokens, attempts, side calls, choices of one request, how calls are linked", "lost")
EMBEDDINGS = Aspect("embeddings", "lost", unit="embeddings")

WRITE_ASPECTS = (
    *(LENGTHS, TOOLS, REGIONS, MESSAGES, SYSTEM, DROPS),
    *(MADE, TOLD, REMADE, WAITS, EMPTY, HISTORY, MERGED, UNJOINED, ORDER),
    *(TIMES, DOMAINS, BOUNDS, REASONS, EVIDENCE, EMBEDDINGS),
)

WAIT_NAME = "wait"

_NAMESPACE = uuid.UUID("6f1b0f0e-6d2c-5f0a-9b5e-6c1d2f3a4b5c")
"""Of the ids that are made here."""
_FINISH_REASONS: tuple[FinishReason, ...] = ("stop", "length", "tool_calls", "content_filter")


def write_trace(trace: Trace, fidelity: Fidelity) -> bytes:
    """Return the bytes of a file."""
    trace = normalise(trace)
    order = ordered(trace)
    written = events_of(trace, order)
    lines = [orjson.dumps(event) for event in written.events]
    _note(trace, order, fidelity, keeps_messages=written.keeps_messages)
    body = b"\n" + b",\n".join(b" " + line for line in lines) + b"\n" if lines else b""
    return b'{\n"trace_id": ' + orjson.dumps(_trace_id(trace)) + b',\n"events": [' + body + b"]\n}\n"


@dataclass(frozen=True, slots=True)
class Written:
    """The events of a file."""

    events: list[dict[str, Any]]
    keeps_messages: bool


def events_of(trace: Trace, order: Order) -> Written:
    """Return the events of the file of a trace in normal form.

    Messages whose sizes the file gave are kept. Those that were recorded are kept unless more calls replay alike with
    messages that are made: the forest and the lengths of prompts are what a trace says (R3).
    """
    kept = list(_written(trace, order, keeps=True)) if has_messages(trace) else None
    if kept is not None and trace.token_source == "given":
        return Written(kept, keeps_messages=True)
    made = list(_written(trace, order, keeps=False))
    if kept is None or _alike(trace, order, made) > _alike(trace, order, kept):
        return Written(made, keeps_messages=False)
    return Written(kept, keeps_messages=True)


def has_messages(trace: Trace) -> bool:
    """Say whether a trace tells its prompts by messages."""
    return any(isinstance(event, Message) for event in trace.events)


def _written(trace: Trace, order: Order, *, keeps: bool) -> Iterator[dict[str, Any]]:
    writer = _Events(trace, sizes_of(trace, order.steps) if keeps else None)
    for place, step in enumerate(order.steps):
        yield from writer.written(step, place)


def _alike(trace: Trace, order: Order, events: Sequence[dict[str, Any]]) -> int:
    """Return how many calls replay as they were recorded."""
    recorded = recorded_prompts(trace, calls_of(order.steps))
    return sum(here == there for here, there in zip(recorded, replayed_prompts(events), strict=True))


def _trace_id(trace: Trace) -> str:
    try:
        return str(uuid.UUID(trace.trace_id))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, trace.trace_id))


@dataclass
class _Events:
    """Turns steps into events."""

    trace: Trace
    sizes: Sizes | None
    """Of the messages, where they are kept."""
    domains: dict[int, int] = field(default_factory=dict)
    """The cache domain of a conversation's first call."""
    ran_tool: set[Branch | None] = field(default_factory=set)
    """Branches on which a tool ran since their last call."""
    waits: int = 0

    def __post_init__(self) -> None:
        self.maker = PromptMaker(self.trace)
        for call in self.trace.calls():
            self.domains.setdefault(call.conversation_id, call.domain)

    def written(self, step: Step, place: int) -> Iterator[dict[str, Any]]:
        """Yield the events of a step, which is at that place in the order."""
        match step:
            case Fork():
                yield _event("parallel_start", step.path, num_branches=step.num_branches)
            case Join():
                yield _event("parallel_end", step.path)
            case Placed():
                yield from self._event(step.event, step.path, place)

    def _event(self, event: TraceEvent, path: Path, place: int) -> Iterator[dict[str, Any]]:
        match event:
            case Message() if self.sizes is not None:
                yield self._message(event, path, self.sizes.tokens.get(place, event.tokens))
            case Call():
                yield from self._call(event, path, place)
            case ToolCall():
                self.ran_tool.add(event.branch)
                yield _tool(path, event.tool_call_id, event.tool_name, event.duration_ms)
            case Wait():
                yield _tool(path, f"wait{self.waits}", WAIT_NAME, event.duration_ms)
                self.waits += 1
            case DropKvCache():
                yield _event("drop_kv_cache", path)
            case _:
                pass

    def _message(self, message: Message, path: Path, tokens: int) -> dict[str, Any]:
        """Return a message that was recorded; their replay knows no answer that it did not ask for."""
        return self._written_message(
            path,
            conversation=message.conversation_id,
            role="user" if message.role == "assistant" else message.role,
            index=message.message_index,
            tokens=tokens,
            shared=message.system_prompt_id,
            domain=self.domains.get(message.conversation_id, 0),
        )

    def _call(self, call: Call, path: Path, place: int) -> Iterator[dict[str, Any]]:
        conversation, index = call.conversation_id, call.message_index
        if self.sizes is None:
            prompt = self.maker.make(call, after_tool=call.branch in self.ran_tool)
            conversation, index, made = prompt.conversation, prompt.message_index, prompt.messages
        else:
            made = tuple(MadeMessage(empty, "user", 0) for empty in self.sizes.emptied.get(place, ()))
        for message in made:
            yield self._written_message(
                path,
                conversation=conversation,
                role=message.role,
                index=message.message_index,
                tokens=message.tokens,
                shared=message.shared,
                domain=call.domain,
            )
        self.ran_tool.discard(call.branch)
        yield _answer(call, path, conversation, index)

    def _written_message(
        self, path: Path, *, conversation: int, role: Role, index: int, tokens: int, shared: str | None, domain: int
    ) -> dict[str, Any]:
        return _event(
            "message",
            path,
            conversation_id=conversation,
            role=role,
            message_index=min(index, MAX_MESSAGES),
            system_prompt_id=self._system_prompt_id(shared, domain) if shared and role == "system" else None,
            tokens=tokens,
        )

    def _system_prompt_id(self, shared: str, domain: int) -> str:
        """Return an id that is the same where campaign, domain and id are."""
        name = f"{self.trace.campaign}/{shared}" + (f"/{domain}" if domain else "")
        return str(uuid.uuid5(_NAMESPACE, name))


def _answer(call: Call, path: Path, conversation: int, index: int) -> dict[str, Any]:
    return _event(
        "message",
        path,
        conversation_id=conversation,
        role="assistant",
        message_index=min(index, MAX_MESSAGES),
        tool_calls=list(call.tool_calls) or None,
        prompt_tokens=call.prompt_tokens,
        completion_tokens=max(call.completion_tokens, 1),
        reasoning_tokens=call.reasoning_tokens,
        finish_reason=call.finish_reason if call.finish_reason in _FINISH_REASONS else None,
    )


def _tool(path: Path, number: str, name: str, duration_ms: float) -> dict[str, Any]:
    return _event("tool_call", path, tool_call_id=number, tool_name=name, duration_ms=writable_ms(duration_ms))


def _event(kind: str, path: Sequence[int], **fields: Any) -> dict[str, Any]:
    there = {key: value for key, value in fields.items() if value is not None}
    return {"event_type": kind, "branch_path": list(path), **there}


def _note(trace: Trace, order: Order, fidelity: Fidelity, *, keeps_messages: bool) -> None:
    calls, events = list(trace.calls()), trace.events
    messages = [event for event in events if isinstance(event, Message)]
    history = sum(message.role == "assistant" for message in messages)
    fidelity.note(LENGTHS, len(calls))
    fidelity.note(TOOLS, sum(isinstance(event, ToolCall) for event in events))
    fidelity.note(REGIONS, sum(isinstance(step, Fork) for step in order.steps))
    fidelity.note(MESSAGES, (len(messages) - history) * keeps_messages)
    fidelity.note(REMADE, len(messages) * (not keeps_messages))
    fidelity.note(SYSTEM, len(trace.shared_prefixes))
    fidelity.note(DROPS, sum(isinstance(event, DropKvCache) for event in events))
    fidelity.note(TOLD if keeps_messages else MADE, len(calls))
    fidelity.note(WAITS, sum(isinstance(event, Wait) for event in events))
    fidelity.note(EMPTY, sum(call.completion_tokens == 0 for call in calls))
    fidelity.note(HISTORY, history * keeps_messages)
    fidelity.note(MERGED, len(order.merged))
    fidelity.note(UNJOINED, len(order.unjoined))
    fidelity.note(ORDER, order.is_rearranged)
    fidelity.note(TIMES, sum(call.at_ms is not None or call.duration_ms is not None for call in calls))
    fidelity.note(DOMAINS, sum(call.domain != calls[0].domain for call in calls))
    fidelity.note(BOUNDS, sum(call.prefix.low is not None or call.prefix.high is not None for call in calls))
    fidelity.note(REASONS, sum(call.finish_reason not in (*_FINISH_REASONS, "unknown") for call in calls))
    fidelity.note(EVIDENCE, sum(_has_evidence(call) for call in calls))
    fidelity.note(EMBEDDINGS, sum(isinstance(event, Embedding) for event in events))


def _has_evidence(call: Call) -> bool:
    is_told = not (call.cached_tokens is call.attempts is call.request is None)
    return is_told or call.aux or call.link is not None
