"""How the prompts of a trace are laid out as messages of users and assistants, one after the other.

The template's tokens are a part of each prompt's recorded length, so words make up the rest. A call whose prefix ends

- inside what a user says: the same messages up to there, and its own words go on in that message;
- inside an answer: the message of the assistant ends there, and its own words are the next message of the user;
- where an answer begins: an answer of its own words, then a message of the user;
- at the end of a prompt that is as long: the same messages.

Where that leaves no room for the template, or where the prefix ends inside its tokens, the call leaves the other stream
as early as it must: lengths are exact, and what is lost is counted. All prompts have the template's beginning in common.

The layout is planned as a trace whose prefixes say where streams leave one another really, so that all that holds for
prefixes (codes, shared text, optimum) holds for messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from rotoscope.replayer.chat_template import ChatTemplate, TemplateIds
from rotoscope.replayer.layout import PLAIN, Layout
from rotoscope.replayer.rendering import LaidOut
from rotoscope.replayer.tokens import TokenIds
from rotoscope.traces.model import NO_PREFIX, Call, Prefix, SharedKind, SharedPrefix, Trace

Role: TypeAlias = Literal["user", "assistant"]


class _Content(NamedTuple):
    """Content of a message, in positions of the stream."""

    role: Role
    start: int
    stop: int
    begins: bool = True
    """Whether the message begins here, and does not go on from another stream."""
    missing: int = 0
    """Tokens of the template that come before it in a prompt that goes on with it, but not in this stream."""


class _Leaving(NamedTuple):
    """Where a prompt leaves another stream, None at the root."""

    of: _Stream | None
    tokens: int
    content: _Content | None


@dataclass(eq=False, slots=True)
class _Stream:
    """A stream as it is laid out."""

    name: int | str
    of: _Stream | None
    leaves_at: int
    prompt_tokens: int
    recorded_prompt_tokens: int
    contents: list[_Content] = field(default_factory=list)
    """Those of its own, the answer included."""
    visible_tokens: int = 0
    """Tokens of its answer without reasoning."""

    def position(self, recorded: int) -> int:
        """Return where a number of recorded tokens ends; prompts may be longer than recorded."""
        longer = self.prompt_tokens - self.recorded_prompt_tokens
        return recorded + longer if recorded > self.recorded_prompt_tokens else recorded


def lay_out(trace: Trace, template: ChatTemplate, ids: TemplateIds) -> LaidOut:
    """Lay out all prompts of a trace."""
    return _Plan(trace, template, ids).laid_out()


def shared_layout(ids: TemplateIds, *, is_root: bool) -> Layout:
    """Return the layout of a shared prefix: those that begin like no other one begin with the template."""
    return Layout(fixed=((0, ids.head),), lead=len(ids.head)) if is_root else PLAIN


class _Plan:
    def __init__(self, trace: Trace, template: ChatTemplate, ids: TemplateIds) -> None:
        self._trace = trace
        self._template = template
        self._ids = ids
        self._streams: dict[int | str, _Stream] = {}
        self._beyond: dict[tuple[_Stream, int, Role], _Leaving] = {}
        """Where a first prompt leaves what somebody says with tokens of the template: the place behind them."""
        self._ended: dict[tuple[_Stream, int, int], _Stream] = {}
        """The first prompt whose last message ends at a token of a stream, by cache domain."""
        self._groups: set[str] = set()
        """Shared prefixes of which each copy of a corpus has its own, for those that lose the one they begin like."""
        self._layouts: dict[int, Layout] = {}
        self._lost = 0
        self._too_short = 0

    def laid_out(self) -> LaidOut:
        shared = tuple(filter(None, map(self._shared, self._trace.shared_prefixes)))
        calls = {call.call: self._call(call) for call in self._trace.calls()}
        events = tuple(calls[event.call] if isinstance(event, Call) else event for event in self._trace.events)
        trace = replace(self._trace, shared_prefixes=shared, events=events)
        return LaidOut(trace, self._layouts, self._lost, self._too_short)

    def _shared(self, shared: SharedPrefix) -> SharedPrefix | None:
        """Lay out a shared prefix as the beginning of the first message; none that ends within the template."""
        head, link = self._template.head, shared.prefix
        if shared.kind == "group" or (link and link.of in self._groups):
            self._groups.add(shared.id)
        if shared.tokens <= head:
            return None
        of = self._streams.get(link.of) if link and link.tokens > head else None
        leaves_at = link.tokens if of and link else head
        stream = _Stream(shared.id, of, leaves_at, shared.tokens, shared.tokens)
        stream.contents.append(_Content("user", leaves_at, shared.tokens, begins=of is None))
        self._streams[shared.id] = stream
        kind: SharedKind = "group" if shared.id in self._groups else shared.kind
        return replace(shared, kind=kind, prefix=link if of else None)

    def _call(self, call: Call) -> Call:
        of = None if call.prefix.of is None else self._streams.get(call.prefix.of)
        leaving = _repeats(call, of) or self._leaving(call, of)
        prompt_tokens = self._prompt_tokens(call, leaving)
        root = self._template.head if leaving.of is None else leaving.tokens
        stream = _Stream(call.call, leaving.of, root, prompt_tokens, call.prompt_tokens)
        stream.visible_tokens = call.completion_tokens - call.reasoning_tokens
        self._fill(stream, leaving, call)
        self._streams[call.call] = stream
        self._lost += max(call.prefix.tokens - max(leaving.tokens, self._template.head), 0)
        self._too_short += prompt_tokens > call.prompt_tokens
        prefix = Prefix(leaving.of.name, leaving.tokens, call.prefix.source) if leaving.of else NO_PREFIX
        return replace(call, prefix=prefix, prompt_tokens=prompt_tokens)

    def _prompt_tokens(self, call: Call, leaving: _Leaving) -> int:
        if leaving.of is None:
            return max(call.prompt_tokens, self._template.least_prompt)
        return max(call.prompt_tokens, leaving.tokens)

    def _leaving(self, call: Call, of: _Stream | None) -> _Leaving:
        """Return the last place up to the end of the prefix at which the call can leave the other stream."""
        parts = call.prompt_tokens > call.prefix.tokens
        for stream, content, most in _contents(of, of.position(call.prefix.tokens) if of else 0):
            tokens = self._furthest(content, most, call.prompt_tokens, parts=parts)
            if tokens is not None and tokens > stream.leaves_at:
                same = self._ended.get((stream, tokens, call.domain))
                if same is not None and tokens + self._template.tail == call.prompt_tokens:
                    return _Leaving(same, same.prompt_tokens, None)
                return self._beyond.get((stream, tokens, content.role)) or _Leaving(stream, tokens, content)
        return _Leaving(None, 0, None)

    def _furthest(self, content: _Content, most: int, prompt_tokens: int, *, parts: bool) -> int | None:
        """Return how far a prompt of that length can go along a content, at most to `most`; None if it cannot."""
        back, tail = self._template.back, self._template.tail
        after = tail + parts if content.role == "user" else back + 1 + tail
        tokens = min(most, content.stop, prompt_tokens - after)
        if tokens > content.start:
            return tokens
        at_start = tail + 1 if content.role == "user" else content.missing + 1 + back + 1 + tail
        is_room = content.begins and content.start <= min(most, prompt_tokens - at_start)
        return content.start if is_room else None

    def _fill(self, stream: _Stream, leaving: _Leaving, call: Call) -> None:
        """Lay out the own part of a prompt and its answer."""
        end = stream.prompt_tokens - self._template.tail
        content = leaving.content
        if content is None:
            fixed = [(0, self._ids.head), (end, self._ids.tail)] if leaving.of is None else []
            at = stream.leaves_at
        else:
            fixed, at = self._go_on(stream, leaving, content, end)
            fixed.append((end, self._ids.tail))
        if at <= end:
            owner = leaving.of if leaving.of and at == end == leaving.tokens else stream
            self._ended.setdefault((owner, end, call.domain), stream)
            begins = content is None or content.role == "assistant" or at == content.start
            stream.contents.append(_Content("user", at, end, begins=begins))
        stream.contents.append(self._answer(end, stream.prompt_tokens, call.completion_tokens))
        self._layouts[call.call] = _layout(leaving.tokens, end, fixed, self._template.tail)

    def _go_on(
        self, stream: _Stream, leaving: _Leaving, content: _Content, end: int
    ) -> tuple[list[tuple[int, TokenIds]], int]:
        """Lay out what comes before the own message of the user; return the template's tokens in it and where it ends."""
        template, ids, at = self._template, self._ids, leaving.tokens
        assert leaving.of is not None
        if content.role == "user":
            return [], at
        if at > content.start:
            self._go_back(stream, leaving.of, at, end)
            return [(at, ids.back)], at + template.back
        start = at + content.missing
        stop = start + max(min(leaving.of.visible_tokens, end - start - template.back - 1), 1)
        answer = _Content("assistant", start, stop)
        stream.contents.append(answer)
        if content.missing:
            self._beyond[leaving.of, at, "assistant"] = _Leaving(stream, start, answer)
        self._go_back(stream, stream, stop, end)
        return [(at, ids.turn[template.turn - content.missing :]), (stop, ids.back)], stop + template.back

    def _go_back(self, stream: _Stream, of: _Stream, at: int, end: int) -> None:
        """Note that the other stream is left at a token by an own message of the user."""
        start = at + self._template.back
        self._beyond[of, at, "assistant"] = _Leaving(stream, start, _Content("user", start, end))

    def _answer(self, end: int, prompt_tokens: int, output_tokens: int) -> _Content:
        template = self._template
        if template.takes_answers_up:
            return _Content("assistant", prompt_tokens, prompt_tokens + output_tokens)
        start = end + template.common
        return _Content("assistant", start, start, missing=template.turn - template.common)


def _repeats(call: Call, of: _Stream | None) -> _Leaving | None:
    """Return the end of the other prompt if the call has the same."""
    if of is None or isinstance(of.name, str):
        return None
    if not call.prompt_tokens == call.prefix.tokens == of.recorded_prompt_tokens:
        return None
    while of.of is not None and of.prompt_tokens == of.leaves_at:
        of = of.of
    return _Leaving(of, of.prompt_tokens, None)


def _contents(stream: _Stream | None, tokens: int) -> Iterator[tuple[_Stream, _Content, int]]:
    """Yield the contents among the first tokens of a stream, the last first, each with where it ends at most."""
    while stream is not None:
        for content in reversed(stream.contents):
            if content.start <= tokens:
                yield stream, content, tokens
        tokens, stream = min(tokens, stream.leaves_at), stream.of


def _layout(leaves_at: int, end: int, fixed: list[tuple[int, TokenIds]], tail: int) -> Layout:
    """Return the layout of a prompt that leaves another stream at a token."""
    lead = leaves_at
    for position, ids in sorted(fixed, key=lambda one: one[0]):
        if position == lead and position != end:
            lead += len(ids)
    return Layout(fixed=tuple(one for one in fixed if len(one[1])), lead=lead - leaves_at, tail=tail)
