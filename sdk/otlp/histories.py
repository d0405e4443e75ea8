"""Which call has what stands before a prompt that holds only what is new: the server keeps the rest.

A request of the Responses API names the response that it goes on from. Where its span does not tell that, a prompt that
begins with the results of tools, and holds no answer that asked for them, goes on from the call that did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rotoscope.sdk.otlp.calls import ModelCall


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
        by_tool_call: dict[str, int] = {}
        for place, call in enumerate(calls):
            before = by_response.get(call.previous_response)
            if before is None and not call.previous_response:
                before = _asked_by(call, by_tool_call)
            if before is not None:
                found.previous[place] = found.names[before] = calls[before].response_id or f"response {before}"
            elif call.previous_response:
                found.previous[place] = call.previous_response
            if call.response_id:
                by_response[call.response_id] = place
            by_tool_call.update((call_id, place) for answer in call.said.answers for call_id in _tool_calls(answer))
        return found


def _asked_by(call: ModelCall, by_tool_call: dict[str, int]) -> int | None:
    """Return the call that asked for the tools whose results a prompt begins with."""
    messages = [message for message in call.said.messages if message.get("role") not in ("system", "developer")]
    if not messages or messages[0].get("role") != "tool":
        return None
    return by_tool_call.get(str(messages[0].get("tool_call_id") or ""))


def _tool_calls(answer: dict[str, object]) -> Iterator[str]:
    calls = answer.get("tool_calls")
    for one in calls if isinstance(calls, list) else ():
        if call_id := one.get("id"):
            yield call_id
