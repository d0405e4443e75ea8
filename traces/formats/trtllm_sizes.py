"""How recorded messages are written so that TensorRT-LLM's replay puts the recorded prompts together.

1. That replay never cuts a conversation: a message at an old index overwrites one segment and leaves those behind it. So
   before each call empty messages take the places from its own on.
2. Where sizes are estimates, the newest message that is no system prompt gives or takes what the prompt is longer or
   shorter than its segments. Sizes that are given are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.formats.trtllm_order import Placed, Step
from rotoscope.traces.model import Branch, Call, Message, Trace

_Key: TypeAlias = tuple[Branch | None, int]
"""A branch and a conversation."""


@dataclass(slots=True)
class Sizes:
    """What becomes of the messages of a trace, by place in the order of the file."""

    tokens: dict[int, int] = field(default_factory=dict)
    """Sizes of messages that are not the recorded ones."""
    emptied: dict[int, list[int]] = field(default_factory=dict)
    """For a call, the indices at which empty messages come before it."""


def sizes_of(trace: Trace, steps: Sequence[Step]) -> Sizes:
    """Return the sizes of the messages of a trace whose events stand in the order of `steps`."""
    fitting = _Fitting(trace)
    for place, step in enumerate(steps):
        if isinstance(step, Placed) and isinstance(step.event, Message):
            fitting.message(step.event, place)
        elif isinstance(step, Placed) and isinstance(step.event, Call):
            fitting.call(step.event, place)
    return fitting.sizes


@dataclass(slots=True)
class _Conversation:
    """The segments that replay has of a conversation."""

    tokens: list[int] = field(default_factory=list)
    pliable: tuple[int, int] | None = None
    """Place in the file and segment of the newest message since the last call whose size is an estimate."""

    def store(self, index: int, tokens: int) -> int:
        """Overwrite or append a segment; return which one it is."""
        if index < len(self.tokens):
            self.tokens[index] = tokens
            return index
        self.tokens.append(tokens)
        return len(self.tokens) - 1


@dataclass(slots=True)
class _Fitting:
    trace: Trace
    sizes: Sizes = field(default_factory=Sizes)
    conversations: dict[_Key, _Conversation] = field(default_factory=dict)

    def message(self, message: Message, place: int) -> None:
        conversation = self._conversation(message)
        segment = conversation.store(message.message_index, message.tokens)
        source = message.tokens_source or self.trace.token_source
        if source == "estimate" and not (message.role == "system" and message.system_prompt_id):
            conversation.pliable = place, segment

    def call(self, call: Call, place: int) -> None:
        conversation = self._conversation(call)
        stale = range(call.message_index, len(conversation.tokens))
        emptied = [index for index in stale if conversation.tokens[index]]
        if emptied:
            self.sizes.emptied[place] = emptied
        for index in emptied:
            conversation.tokens[index] = 0
        if conversation.pliable is not None:
            self._fit(conversation, call)
        conversation.store(call.message_index, max(call.completion_tokens, 1) - call.reasoning_tokens)
        conversation.pliable = None

    def _fit(self, conversation: _Conversation, call: Call) -> None:
        assert conversation.pliable is not None
        place, segment = conversation.pliable
        short = call.prompt_tokens - sum(conversation.tokens)
        tokens = max(conversation.tokens[segment] + short, 0)
        if tokens != conversation.tokens[segment] and segment < call.message_index:
            conversation.tokens[segment] = self.sizes.tokens[place] = tokens

    def _conversation(self, event: Message | Call) -> _Conversation:
        return self.conversations.setdefault((event.branch, event.conversation_id), _Conversation())
