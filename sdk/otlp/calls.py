"""Model calls as spans tell of them, each once: spans around a call, beside it and behind it are the same call.

- A call span within another is the same call (a framework's span around the client's), unless the outer one has several:
  then it is a loop around them. The innermost with usage counts; what it does not tell is taken from the outer one.
- Two instrumentations may write the same call in two places, of two traces even: spans that overlap are the same where
  they tell of the same response or of the same words, and where one lies within the other if they tell of counts alone.
  So are those of which neither tells how long the answer was, as it was left or failed.
- Logfire ends the span of a streamed request when the answer begins, and tells of the rest in a span without length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rotoscope.recorder.usage import Usage
from rotoscope.sdk.otlp import spellings
from rotoscope.sdk.otlp.content import Said, said_in
from rotoscope.sdk.otlp.spans import Key, Span

_SLACK_NS = 2_000_000
"""Clocks of two instrumentations of one process may be read so long apart at least."""
_SLACK_SHARE = 8
"""And by so small a part of a call, where threads wait for one another."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelCall:
    """One call of a model."""

    span: Span
    """Where it stands in the tree."""
    start_ns: int
    end_ns: int | None
    """None where it had not ended; of one that was counted as if it had, the last moment that is told of."""
    first_ns: int | None = None
    """When the first piece of the answer came."""
    model: str = field(default="", repr=False)
    usage: Usage = field(default_factory=Usage)
    said: Said = field(repr=False)
    reasons: Sequence[str] = ()
    """Why outputs ended, in the words of chat."""
    choices: int = 1
    is_text: bool = False
    is_response: bool = False
    """Whether it went to the Responses API."""
    is_stream: bool = False
    is_error: bool = False
    was_left: bool = False
    """Whether the client left before the answer had ended: where it says so, or a stream came to no end."""
    status: int = 500
    """Where it is an error."""
    response_id: str = field(default="", repr=False)
    previous_response: str = field(default="", repr=False)
    conversation: str = field(default="", repr=False)

    @classmethod
    def of(cls, span: Span) -> ModelCall:
        """Read a call span."""
        choices = spellings.choices_of(span)
        said, usage = said_in(span, choices), spellings.usage_of(span)
        reasons = spellings.finish_reasons_of(span, said.finish_reasons)
        is_stream = spellings.is_stream(span)
        has_end = bool(set(reasons) - {"error"}) or usage.completion_tokens is not None
        first_ns, end_ns = spellings.first_ns_of(span), span.end_ns
        if end_ns is None and usage.completion_tokens is not None:
            end_ns = max(span.start_ns, first_ns or 0, *(event.at_ns for event in span.events))
        return cls(
            span=span,
            start_ns=span.start_ns,
            end_ns=end_ns,
            first_ns=first_ns,
            model=spellings.model_of(span),
            usage=usage,
            said=said,
            reasons=reasons,
            choices=choices,
            is_text=spellings.is_text(span) and [x.get("role") for x in said.messages] in ([], ["user"]),
            is_response=spellings.is_response(span),
            is_stream=is_stream,
            is_error=span.is_error,
            was_left=spellings.was_left(span)
            or (is_stream and not has_end and not span.is_error and span.end_ns is not None),
            status=spellings.status_of(span),
            response_id=spellings.response_id_of(span),
            previous_response=spellings.previous_response_of(span),
            conversation=f"{spellings.conversation_of(span)} {spellings.agent_of(span)}".strip(),
        )

    @property
    def has_content(self) -> bool:
        return bool(self.said.messages)

    @property
    def has_usage(self) -> bool:
        return self.usage.prompt_tokens is not None and self.end_ns is not None

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        return self.is_error and not self.has_usage and not self.said.answers

    @property
    def is_broken(self) -> bool:
        """Whether its answer began, and came to no end."""
        return self.was_left or (self.is_error and not self.failed)

    def filled(self, outer: ModelCall) -> ModelCall:
        """Return this call with what another span of the same call tells beyond it; it stands where that one does."""
        said = self.said if self.has_content else outer.said
        if said.messages and not said.answers and outer.said.answers:
            said = replace(said, answers=outer.said.answers)
        return replace(
            self,
            span=outer.span,
            end_ns=outer.end_ns if self.end_ns is None else self.end_ns,
            first_ns=outer.first_ns if self.first_ns is None else self.first_ns,
            model=self.model or outer.model,
            usage=self.usage.or_else(outer.usage),
            said=said,
            reasons=self.reasons or outer.reasons,
            choices=max(self.choices, outer.choices),
            is_response=self.is_response or outer.is_response,
            is_stream=self.is_stream or outer.is_stream,
            was_left=self.was_left or outer.was_left,
            response_id=self.response_id or outer.response_id,
            previous_response=self.previous_response or outer.previous_response,
            conversation=self.conversation or outer.conversation,
        )


@dataclass(frozen=True, slots=True)
class Folded:
    """The calls of a file."""

    calls: list[ModelCall]
    """By their starts."""
    doubles: int
    """Spans that told of a call that another one told of too."""


def fold_calls(spans: Iterable[Span], parents: Mapping[Key, Span]) -> Folded:
    """Return the calls of spans, each once; `parents` has the parent of each span that has one."""
    call_spans = [span for span in spans if spellings.kind_of(span) == "call"]
    calls = {span.key: ModelCall.of(span) for span in call_spans}
    _fold_logs(calls)
    _fold_nested(calls, parents)
    found = _fold_doubles(sorted(calls.values(), key=lambda call: call.start_ns), parents)
    return Folded(found, len(call_spans) - len(found))


def _fold_logs(calls: dict[Key, ModelCall]) -> None:
    """Put what Logfire tells behind a streamed call to that call."""
    logs = [call for call in calls.values() if _is_log(call)]
    waiting: defaultdict[tuple[str, str], list[ModelCall]] = defaultdict(list)
    for call in calls.values():
        if logs and not call.has_usage and not _is_log(call):
            waiting[call.span.trace_id, call.span.parent_id].append(call)
    for log in sorted(logs, key=lambda call: call.start_ns):
        beside = waiting[log.span.trace_id, log.span.parent_id]
        before = [call for call in beside if call.start_ns <= log.start_ns and call.span.scope == log.span.scope]
        if before:
            request = max(before, key=lambda call: (call.said.messages == log.said.messages, -call.start_ns))
            beside.remove(request)
            whole = replace(
                log, start_ns=request.start_ns, end_ns=log.start_ns, first_ns=request.end_ns, is_stream=True
            )
            calls[request.span.key] = whole.filled(request)
            del calls[log.span.key]


def _is_log(call: ModelCall) -> bool:
    return call.span.attributes.get("logfire.span_type") == "log"


def _fold_nested(calls: dict[Key, ModelCall], parents: Mapping[Key, Span]) -> None:
    """Leave one call of those that stand within one another."""
    within: defaultdict[Key, list[Key]] = defaultdict(list)
    for key in calls:
        if (outer := _outer(key, calls, parents)) is not None:
            within[outer].append(key)
    depths = {key: _depth(key, calls, parents) for key in within}
    for outer in sorted(within, key=lambda key: -depths[key]):
        inner = [key for key in within[outer] if key in calls]
        if len(inner) == 1:
            calls[outer] = calls.pop(inner[0]).filled(calls[outer])
        elif any(calls[key].has_usage for key in inner) or not calls[outer].has_usage:
            if (above := _outer(outer, calls, parents)) is not None:
                within[above] += inner
            del calls[outer]
        else:
            for key in inner:
                del calls[key]


def _outer(key: Key, calls: dict[Key, ModelCall], parents: Mapping[Key, Span]) -> Key | None:
    """Return the call around a call, unless a tool or an agent stands between them."""
    while (parent := parents.get(key)) is not None:
        key = parent.key
        if key in calls:
            return key
        if spellings.kind_of(parent) in ("tool", "agent"):
            return None
    return None


def _depth(key: Key, calls: dict[Key, ModelCall], parents: Mapping[Key, Span]) -> int:
    depth, above = 0, _outer(key, calls, parents)
    while above is not None:
        depth, above = depth + 1, _outer(above, calls, parents)
    return depth


def _fold_doubles(calls: Sequence[ModelCall], parents: Mapping[Key, Span]) -> list[ModelCall]:
    """Leave one call of those that two instrumentations tell of."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    left: dict[int, ModelCall] = {}
    tellers: dict[int, set[str]] = {}
    for number, call in enumerate(calls):
        left[number], tellers[number] = call, {call.span.scope}
        for sign in _signs(call):
            groups[sign] = [x for x in groups[sign] if _may_go_on(left[x], call.start_ns)]
        beside = (x for sign in _signs(call) for x in groups[sign])
        double = next((x for x in beside if call.span.scope not in tellers[x] and _is_same(left[x], call)), None)
        if double is None:
            for sign in _signs(call):
                groups[sign].append(number)
            continue
        inner, outer = sorted((left[double], call), key=_length)
        placed = max((inner, outer), key=lambda x: (x.span.key in parents, x is outer))
        left[double] = replace(inner.filled(outer), span=placed.span)
        tellers[double] |= tellers.pop(number)
        del left[number]
    return sorted(left.values(), key=lambda call: call.start_ns)


def _may_go_on(call: ModelCall, at_ns: int) -> bool:
    return call.end_ns is None or call.end_ns + _SLACK_NS >= at_ns


def _signs(call: ModelCall) -> list[object]:
    """Return what two spans of one call have in common."""
    signs: list[object] = [call.response_id] if call.response_id else []
    if call.has_usage:
        signs.append((call.model, call.usage.prompt_tokens, call.usage.completion_tokens))
    if call.has_content:
        signs.append((call.model, repr(call.said.messages[-1].get("content"))))
    if call.usage.completion_tokens is None:
        signs.append((call.model, "cut"))
    return signs


def _is_same(one: ModelCall, other: ModelCall) -> bool:
    """Tell whether two calls with something in common, told of by two instrumentations, are one."""
    if one.response_id and other.response_id:
        return one.response_id == other.response_id and _overlap(one, other)
    if one.has_content and other.has_content:
        return _says_alike(one, other) and _overlap(one, other)
    if one.usage.completion_tokens is None and other.usage.completion_tokens is None:
        prompts = {one.usage.prompt_tokens, other.usage.prompt_tokens} - {None}
        return len(prompts) < 2 and _overlap(one, other)  # each hears of what was cut as long as it happens to
    return _is_within(one, other) or _is_within(other, one)


def _says_alike(one: ModelCall, other: ModelCall) -> bool:
    """Tell whether the last message and the answers of two calls are the same, as far as both heard them."""
    asked = [x.said.messages[-1].get("content") or "" for x in (one, other)]
    heard = [[answer.get("content") or "" for answer in x.said.answers] for x in (one, other)]
    heard_less = one.was_left or other.was_left or not (heard[0] and heard[1])
    return asked[0] == asked[1] and (heard_less or heard[0] == heard[1])


def _overlap(one: ModelCall, other: ModelCall) -> bool:
    return _may_go_on(one, other.start_ns) and _may_go_on(other, one.start_ns)


def _is_within(inner: ModelCall, outer: ModelCall) -> bool:
    """Tell whether a call lies within another, as far as a busy machine lets two instrumentations read their clocks."""
    if inner.end_ns is None or outer.end_ns is None:
        return False
    slack_ns = max(_SLACK_NS, _length(inner) // _SLACK_SHARE)
    return outer.start_ns - slack_ns <= inner.start_ns and inner.end_ns <= outer.end_ns + slack_ns


def _length(call: ModelCall) -> int:
    return (call.end_ns or call.start_ns) - call.start_ns
