"""Which call has what stands before a prompt that holds only what is new: the server keeps the rest.

A request of the Responses API names the response that it goes on from. Where its span does not tell that, a prompt that
begins with the results of tools, and holds no answer that asked for them, goes on from the call that did; where the ids of
tool calls do not tell, from the only one that asked for as many tools and whose results nobody brought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.content import Message


@dataclass(frozen=True, slots=True)
class Histories:
    """Names of responses by which requests go on from one another; they are in no file."""

    previous: dict[int, str] = field(default_factory=dict)
    """By the place of a call among all, the response that it goes on from."""
    names: dict[int, str] = field(default_factory=dict)
    """Of those that others go on from."""

    @classmethod
    def of(cls, calls: Sequence[ModelCall]) -> Histories:
        """Find the histories of calls, which stand in the order of their starts."""
        found = cls()
        by_response: dict[str, int] = {}
        asked = _Asked()
        for place, call in enumerate(calls):
            before = by_response.get(call.previous_response)
            if before is None and not call.previous_response:
                before = asked.before(call)
            if before is not None:
                found.previous[place] = found.names[before] = calls[before].response_id or f"response {before}"
            elif call.previous_response:
                found.previous[place] = call.previous_response
            if call.response_id:
                by_response[call.response_id] = place
            asked.add(place, call)
        return found


@dataclass(slots=True)
class _Asked:
    """The calls that asked for tools, so far."""

    by_id: dict[str, int] = field(default_factory=dict)
    open: dict[int, tuple[ModelCall, int]] = field(default_factory=dict)
    """By place, responses with the number of their tools whose results nobody brought."""

    def add(self, place: int, call: ModelCall) -> None:
        ids = [call_id for answer in call.said.answers for call_id in _tool_calls(answer)]
        self.by_id.update(dict.fromkeys(ids, place))
        if ids and call.is_response:
            self.open[place] = call, len(ids)

    def before(self, call: ModelCall) -> int | None:
        """Return the call that asked for the tools whose results a prompt begins with."""
        results = _leading_results(call)
        if not results:
            return None
        named = {self.by_id[call_id] for call_id in results if call_id in self.by_id}
        if not named and call.is_response:
            named = {place for place, (x, tools) in self.open.items() if tools == len(results) and _may_follow(call, x)}
        if len(named) != 1:
            return None
        (place,) = named
        self.open.pop(place, None)
        return place


def _may_follow(call: ModelCall, before: ModelCall) -> bool:
    is_over = before.end_ns is not None and before.end_ns <= call.start_ns
    return is_over and before.model == call.model and before.span.scope == call.span.scope


def _leading_results(call: ModelCall) -> list[str]:
    """Return the ids of the tool calls whose results a prompt begins with, behind its instructions."""
    messages = (message for message in call.said.messages if message.get("role") not in ("system", "developer"))
    return [
        str(x.get("tool_call_id") or "") for x in takewhile(lambda message: message.get("role") == "tool", messages)
    ]


def _tool_calls(answer: Message) -> list[str]:
    return [str(one["id"]) for one in answer.get("tool_calls") or ()]
