"""Read TensorRT-LLM traces, compact and full: message events become a prefix forest with the meaning of the run.

1. A message or call at index k first cuts its conversation to k messages; conversations are kept per branch.
2. A branch that touches a conversation first takes the list its parent had when the region started, or, if the
   conversation was born later, the one its parent has.
3. The answer of a call enters its conversation without its reasoning.
4. Prompts have the recorded prompt_tokens; where the messages' sizes do not add up to them, they give way
   (`message_forest.py`).
5. System messages with an id are shared prefixes, at the longest size seen. Ids name templates, so two traces have the
   same campaign exactly when they name the same templates in the same order, and then share them.

Nothing of the file's text is kept: names become pseudonyms, ids dense numbers, content is never looked at.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id, trace_id_of
from rotoscope.traces.formats.message_forest import Boundary, MessageForest
from rotoscope.traces.formats.trtllm_branches import Branches, Region
from rotoscope.traces.formats.trtllm_events import (
    CONTENT_KIND,
    AnySourceEvent,
    Path,
    SourceCall,
    SourceDrop,
    SourceFork,
    SourceJoin,
    SourceMessage,
    SourceTool,
    SourceTrace,
    parse_trtllm,
)
from rotoscope.traces.model import (
    NO_PREFIX,
    Branch,
    Call,
    DropKvCache,
    FinishReason,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    Role,
    ToolCall,
    Trace,
    TraceEvent,
)
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "trtllm"

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "tool": "tool", "assistant": "assistant"}

Conversation = list[tuple[int, Boundary]]
"""The messages of a conversation in order: index and the boundary after it."""


LENGTHS = Aspect("prompt, output and reasoning lengths", "kept")
MESSAGES = Aspect("messages", "kept", "by their sizes", "messages")
TOOLS = Aspect("tools", "kept", "with their durations, by number instead of name", "tools")
REGIONS = Aspect("parallel regions", "kept", "as regions", "regions")
SYSTEM = Aspect("system prompts with an id", "kept", "as shared prefixes", "prefixes")
DROPS = Aspect("dropped caches", "kept", unit="drops")
DURATIONS = Aspect("durations of answers", "kept", "as full traces have them")
PREFIXES = Aspect("prefixes", "approximated", "by which messages are the same, and the sizes of prompts")
BOUNDS = Aspect("prefixes that messages leave open", "approximated", "with bounds, such as both ends of an answer")
HISTORY = Aspect("sizes of earlier answers", "approximated", "by what the next prompt leaves over", "messages")
CLOCK = Aspect("times of requests", "lost", "the file has no clock")
CONTENT = Aspect("content", "lost", "never looked at", "fields")

READ_ASPECTS = (
    *(LENGTHS, MESSAGES, TOOLS, REGIONS, SYSTEM, DROPS, DURATIONS),
    *(PREFIXES, BOUNDS, HISTORY),
    *(CLOCK, CONTENT),
)


def read_trtllm(data: bytes, path: str = "", fidelity: Fidelity | None = None) -> Trace:
    """Read a TensorRT-LLM trace from the bytes of its file; what is left out or assumed is logged as warnings.

    `path` is only for messages; what is kept and lost is noted in `fidelity`. Raise TraceError where the file is damaged.
    """
    try:
        source = parse_trtllm(data)
        trace = _Import(source).trace()
        validate(trace)
    except TraceError as error:
        raise error.at(path) from error.__cause__
    source.notes.log(logger, path)
    if fidelity is not None:
        _note(trace, source, fidelity)
    return normalise(trace)


def _note(trace: Trace, source: SourceTrace, fidelity: Fidelity) -> None:
    calls, events = list(trace.calls()), trace.events
    messages = [event for event in events if isinstance(event, Message)]
    fidelity.note(LENGTHS, len(calls))
    fidelity.note(MESSAGES, len(messages))
    for kind, aspect in ((ToolCall, TOOLS), (ParallelStart, REGIONS), (DropKvCache, DROPS)):
        fidelity.note(aspect, sum(isinstance(event, kind) for event in events))
    fidelity.note(SYSTEM, len(trace.shared_prefixes))
    fidelity.note(DURATIONS, sum(call.duration_ms is not None for call in calls))
    fidelity.note(PREFIXES, len(calls))
    fidelity.note(BOUNDS, sum(call.prefix.least != call.prefix.greatest for call in calls))
    fidelity.note(HISTORY, sum(message.tokens_source == "estimate" for message in messages))
    fidelity.note(CLOCK, len(calls))
    fidelity.note(CONTENT, source.notes.counts[CONTENT_KIND])


@dataclass(slots=True)
class _Import:
    source: SourceTrace
    forest: MessageForest = field(default_factory=MessageForest)
    branches: Branches = field(default_factory=Branches)
    events: list[TraceEvent] = field(default_factory=list)
    sizes: dict[int, Boundary] = field(default_factory=dict)
    """The boundaries after messages whose size is not recorded, by position in `events`."""
    conversations: dict[tuple[Branch | None, int], Conversation] = field(default_factory=dict)
    inherited: dict[int, dict[int, Conversation]] = field(default_factory=dict)
    """What the children of a region start from, by region."""
    last_calls: dict[Branch | None, int] = field(default_factory=dict)
    conversation_ids: dict[int, int] = field(default_factory=dict)
    tool_names: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    tools: int = 0

    def trace(self) -> Trace:
        for event in self.source.events:
            self._event(event)
        prefixes = self.forest.prefixes()
        trace_id = trace_id_of(FORMAT, self.source.trace_id)
        shared = self.forest.shared_identity()
        return Trace(
            trace_id=trace_id,
            campaign=derived_id(FORMAT, "campaign", *(shared or ("of", trace_id))),
            token_source="given",
            shared_prefixes=self.forest.shared_prefixes(),
            events=tuple(self._finished(index, event, prefixes) for index, event in enumerate(self.events)),
        )

    def _finished(self, index: int, event: TraceEvent, prefixes: list[Prefix]) -> TraceEvent:
        """Fill in what is known only at the end of the file."""
        match event:
            case Call():
                return replace(event, prefix=prefixes[event.call])
            case ParallelStart():
                return replace(event, num_branches=self.branches.regions[event.region].num_branches)
            case Message() if index in self.sizes:
                return replace(event, tokens=self.sizes[index].size or 0, tokens_source="estimate")
            case _:
                return event

    def _event(self, event: AnySourceEvent) -> None:
        if isinstance(event, SourceJoin):
            self._join(event)
            return
        branch = self._branch(event.branch_path)
        match event:
            case SourceMessage():
                self._message(event, branch)
            case SourceCall():
                self._call(event, branch)
            case SourceTool():
                self._tool(event, branch)
            case SourceFork():
                self._fork(self.branches.fork(event.branch_path, event.num_branches))
            case SourceDrop():
                self.events.append(DropKvCache(branch=branch, branch_path=event.branch_path))

    def _branch(self, path: Path) -> Branch | None:
        try:
            return self.branches.find(path)
        except LookupError:
            self.source.notes.add("branch without a parallel_start (taken as a fork that is never joined)")
            self._fork(self.branches.fork((), 1))
            return self.branches.find(path)

    def _fork(self, region: Region) -> None:
        parent = region.parent
        self.inherited[region.number] = self._all_conversations(parent)
        self.events.append(
            ParallelStart(
                region=region.number,
                num_branches=region.num_branches,
                branch=parent,
                branch_path=region.path,
            )
        )

    def _join(self, event: SourceJoin) -> None:
        try:
            region = self.branches.join(event.branch_path)
        except LookupError:
            raise TraceError(
                f"expected a parallel_start on branch_path {list(event.branch_path)} before: join without fork",
                event=event.index,
                field="branch_path",
            ) from None
        self.events.append(ParallelEnd(region=region.number, branch=region.parent, branch_path=region.path))

    def _message(self, event: SourceMessage, branch: Branch | None) -> None:
        conversation, index, before = self._cut(event, branch)
        if event.system_prompt is not None:
            end = self.forest.shared_message(before, event.system_prompt, event.tokens or 0)
        else:
            end = self.forest.message(before, event.tokens)
        self._note(event)
        conversation.append((index, end))
        if event.tokens is None:
            self.sizes[len(self.events)] = end
        self.events.append(
            Message(
                conversation_id=self._conversation_id(event.conversation),
                role=_ROLES[event.role],
                message_index=index,
                tokens=event.tokens or 0,
                system_prompt_id=self.forest.shared_id(end) if event.system_prompt is not None else None,
                branch=branch,
                branch_path=event.branch_path,
            )
        )

    def _note(self, event: SourceMessage) -> None:
        if event.role == "system" and event.system_prompt is None:
            self.source.notes.add("system message without system_prompt_id (shared with no other conversation)")
        if event.tokens is None:
            self.source.notes.add("assistant message without counts (size estimated)")

    def _call(self, event: SourceCall, branch: Branch | None) -> None:
        conversation, index, end = self._cut(event, branch)
        if end is self.forest.root:
            end = self.forest.unseen(end)
            conversation.append((index - 1, end))
            self.source.notes.add("call without messages before it (prefix unknown)")
        answer = self.forest.call(
            end,
            prompt_tokens=event.prompt_tokens,
            completion_tokens=event.completion_tokens,
            reasoning_tokens=event.reasoning_tokens,
        )
        conversation.append((index, answer))
        self.events.append(
            Call(
                call=self.calls,
                conversation_id=self._conversation_id(event.conversation),
                message_index=index,
                prompt_tokens=event.prompt_tokens,
                completion_tokens=event.completion_tokens,
                reasoning_tokens=event.reasoning_tokens,
                prefix=NO_PREFIX,
                tool_calls=tuple(self._tool_name(name) for name in event.tool_names),
                finish_reason=_FINISH_REASONS.get(event.finish_reason or "", "unknown"),
                duration_ms=event.duration_ms,
                branch=branch,
                branch_path=event.branch_path,
            )
        )
        self.last_calls[branch] = self.calls
        self.calls += 1

    def _tool(self, event: SourceTool, branch: Branch | None) -> None:
        self.events.append(
            ToolCall(
                tool_call_id=f"t{self.tools}",
                tool_name=self._tool_name(event.name),
                duration_ms=event.duration_ms,
                call=self._asked_by(branch),
                branch=branch,
                branch_path=event.branch_path,
            )
        )
        self.tools += 1

    def _asked_by(self, branch: Branch | None) -> int | None:
        """Return the last call of a branch, of its parent where it has none itself."""
        while branch is not None and branch not in self.last_calls:
            branch = self.branches.regions[branch[0]].parent
        return self.last_calls.get(branch)

    def _tool_name(self, name: str) -> str:
        return self.tool_names.setdefault(name, f"tool{len(self.tool_names)}")

    def _conversation_id(self, given: int) -> int:
        return self.conversation_ids.setdefault(given, len(self.conversation_ids))

    def _cut(self, event: SourceMessage | SourceCall, branch: Branch | None) -> tuple[Conversation, int, Boundary]:
        """Cut a conversation to the message's index; return it, the index, and the boundary where it ends."""
        conversation = self._conversation(branch, event.conversation)
        following = conversation[-1][0] + 1 if conversation else 0
        index = following if event.message_index is None else event.message_index
        while conversation and conversation[-1][0] >= index:
            conversation.pop()
        before = conversation[-1][1] if conversation else self.forest.root
        if index > following:
            self.source.notes.add("gap in the message indices (messages of unknown size)")
            before = self.forest.unseen(before)
            conversation.append((index - 1, before))
        return conversation, index, before

    def _conversation(self, branch: Branch | None, given: int) -> Conversation:
        if (branch, given) not in self.conversations:
            self.conversations[branch, given] = list(self._inherited(branch, given))
        return self.conversations[branch, given]

    def _inherited(self, branch: Branch | None, given: int) -> Conversation:
        while branch is not None:
            if given in self.inherited[branch[0]]:
                return self.inherited[branch[0]][given]
            branch = self.branches.regions[branch[0]].parent
            if (branch, given) in self.conversations:
                return self.conversations[branch, given]
        return []

    def _all_conversations(self, branch: Branch | None) -> dict[int, Conversation]:
        """Copy all conversations that a branch sees, for its children."""
        inherited = dict(self.inherited[branch[0]]) if branch is not None else {}
        own = {given: list(messages) for (of, given), messages in self.conversations.items() if of == branch}
        return inherited | own
