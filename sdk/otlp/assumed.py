"""Calls whose content nobody tells: prompts that are assumed to go on from one another, by conversation and counts.

A prompt is assumed to go on behind the whole stream of an earlier call of its conversation that had ended and that no
other went on from: the longest one that fits into it, among those that are at least as long as what the server found in
its cache, where any are. The reasoning of an answer is taken for dropped where clients do not send it back, or where the
whole stream does not fit. Where the server found more than that, the prompt shares what was found with the first prompt
of its model that is as long, if there is one; and where it found more than twice as much, it does not go on from there at
all. A prompt that goes on from none begins anew: after a compaction, as a side call, or in a conversation that was not
seen from its start.

A call that failed and was not counted is an attempt at the next one of its conversation.

Words are invented for all of it, so that the recorder treats such calls as any others. What follows for prefixes is then
marked: `assumed` where a prompt shares something, with nothing as the least true value, and `opaque` where it begins
anew though it may share something. The greatest true value is all that an earlier stream has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from rotoscope.sdk.otlp import spellings
from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.content import Message, Said
from rotoscope.traces.model import Prefix, Trace

_BYTES_PER_TOKEN = 4
_MOST_BYTES = 1 << 16
"""Of an invented text; where prompts and answers end is counted, so its length says little."""


@dataclass(slots=True)
class _Stream:
    """A call that another may go on from."""

    call: ModelCall
    prompt: list[Message] = field(repr=False)
    answer: Message = field(repr=False)

    def messages(self, later: ModelCall) -> list[Message]:
        """Return its messages as they stand in the prompt of a call that goes on from it."""
        is_whole = spellings.keeps_reasoning(later.span) and _tokens(self.call) < _prompt_tokens(later)
        return [*self.prompt, self.answer if is_whole else {**self.answer, "reasoning_content": ""}]


@dataclass(slots=True)
class Assumption:
    """Invents the words of the calls of one run, which come in the order of their starts."""

    is_beside_content: bool = False
    """Whether there are calls with content too, from whose lengths the recorder learns how long a text is in tokens."""
    said: dict[ModelCall, Said] = field(default_factory=dict, repr=False)
    """Calls that failed, and that none of their conversation came behind, have no words."""
    found: dict[ModelCall, ModelCall] = field(default_factory=dict)
    """By call, the one with whose prompt it shares what the server found in its cache."""
    _open: defaultdict[str, list[_Stream]] = field(default_factory=lambda: defaultdict(list))
    """By conversation, the calls that none went on from."""
    _failed: defaultdict[str, list[ModelCall]] = field(default_factory=lambda: defaultdict(list))
    """By conversation, calls that came to nothing since the last one that did not."""
    _longest: defaultdict[str, list[ModelCall]] = field(default_factory=lambda: defaultdict(list))
    """By model, calls whose prompts are longer than all before, in their order."""
    _words: count[int] = field(default_factory=lambda: count())

    def add(self, call: ModelCall, conversation: str | None, tools: Sequence[str]) -> None:
        """Take in the next call; `tools` are the names of those that it is known to have asked for.

        One without a conversation goes on from none, and none from it.
        """
        if call.failed:
            self._failed[conversation or ""].append(call)
            return
        streams = [] if conversation is None else self._open[conversation]
        before = self._before(call, streams)
        if (holder := self._holder(call)) is not None and (before is None or _tokens(before.call) < _cached(call)):
            self.found[call] = holder
        if before is None:
            messages = [{"role": "user", "content": self._text(_prompt_tokens(call))}]
        else:
            streams.remove(before)
            messages = [*before.messages(call), *self._new(call, before)]
        answer = self._answer(call, tools)
        streams.append(_Stream(call, messages, answer))
        if not self._longest[call.model] or _prompt_tokens(call) > _prompt_tokens(self._longest[call.model][-1]):
            self._longest[call.model].append(call)
        self.said[call] = Said(messages, [answer])
        for failed in self._failed.pop(conversation, ()) if conversation is not None else ():
            if failed.end_ns is not None and failed.end_ns <= call.start_ns and failed.model == call.model:
                self.said[failed] = Said(messages)

    def prefixes(self, trace: Trace, told: Mapping[int, ModelCall]) -> dict[int, Prefix]:
        """Return the prefixes of the calls whose words were invented, by their numbers in the trace."""
        numbers = {call: number for number, call in told.items()}
        longest: defaultdict[int, int] = defaultdict(int)
        prefixes: dict[int, Prefix] = {}
        for call in trace.calls():
            most = min(call.prompt_tokens, longest[call.domain])
            longest[call.domain] = max(longest[call.domain], call.stream_tokens)
            if told[call.call] not in self.said:
                continue
            of, tokens = call.prefix.of, call.prefix.tokens
            holder = self.found.get(told[call.call])
            if holder is not None and holder in numbers:
                of, tokens = numbers[holder], min(_cached(told[call.call]), call.prompt_tokens)
            prefixes[call.call] = _prefix(of if isinstance(of, int) else None, tokens, most)
        return prefixes

    def _before(self, call: ModelCall, streams: Sequence[_Stream]) -> _Stream | None:
        length, cached = _prompt_tokens(call), _cached(call)
        fitting = [
            x
            for x in streams
            if x.call.end_ns is not None
            and x.call.end_ns <= call.start_ns
            and _least_tokens(x.call) < length
            and cached <= 2 * _tokens(x.call)
        ]
        return max(fitting, key=lambda x: (_tokens(x.call) >= cached, _tokens(x.call), x.call.start_ns), default=None)

    def _holder(self, call: ModelCall) -> ModelCall | None:
        """Return the first call whose prompt is as long as what the server found in its cache."""
        cached, longest = _cached(call), self._longest[call.model]
        place = bisect_left(longest, cached, key=_prompt_tokens)
        return longest[place] if cached and place < len(longest) else None

    def _new(self, call: ModelCall, before: _Stream) -> list[Message]:
        """Return what is new in a prompt: results of the tools that were asked for, or what a user wrote."""
        added = max(1, _prompt_tokens(call) - _tokens(before.call))
        asked = before.answer.get("tool_calls") or ()
        if not asked:
            return [{"role": "user", "content": self._text(added)}]
        return [
            {"role": "tool", "tool_call_id": one["id"], "content": self._text(added // len(asked))} for one in asked
        ]

    def _answer(self, call: ModelCall, tools: Sequence[str]) -> Message:
        reasoning = call.usage.reasoning_tokens or 0
        text = self._text((call.usage.completion_tokens or 0) - reasoning)
        message: Message = {"role": "assistant", "content": text}
        if reasoning:
            message["reasoning_content"] = self._text(reasoning)
        names = list(tools) or [""] * ("tool_calls" in call.reasons)
        if names:
            message["tool_calls"] = [
                {"id": f"call {next(self._words)}", "type": "function", "function": {"name": name, "arguments": ""}}
                for name in names
            ]
        return message

    def _text(self, tokens: int) -> str:
        word = f"{next(self._words)} "
        if not self.is_beside_content:
            return word
        size = min(tokens * _BYTES_PER_TOKEN, _MOST_BYTES)
        return (word * (size // len(word) + 1))[:size] + f" {word}"


def _prefix(of: int | None, tokens: int, most: int) -> Prefix:
    tokens = min(tokens, most)
    if of is not None and tokens:
        return Prefix(of, tokens, "assumed", low=0, high=None if most == tokens else most)
    return Prefix(None, 0, "opaque", high=most) if most else Prefix(None, 0, "assumed")


def _prompt_tokens(call: ModelCall) -> int:
    return call.usage.prompt_tokens or 0


def _cached(call: ModelCall) -> int:
    """Return how much of a prompt the server found in its cache."""
    return min(call.usage.cached_tokens or 0, _prompt_tokens(call))


def _tokens(call: ModelCall) -> int:
    """Return the length of a call's stream."""
    return _prompt_tokens(call) + (call.usage.completion_tokens or 0)


def _least_tokens(call: ModelCall) -> int:
    """Return how much of a stream at least stands in a prompt that goes on from it: reasoning may be dropped."""
    return _tokens(call) - (call.usage.reasoning_tokens or 0)
