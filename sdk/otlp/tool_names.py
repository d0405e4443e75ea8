"""Which call asked for each tool that ran, and by which name: frameworks call the span of a tool as they like."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rotoscope.sdk.otlp import spellings
from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.lines import Line
from rotoscope.sdk.otlp.spans import Span


@dataclass(slots=True)
class ToolNames:
    """The tools of a run."""

    behind: dict[ModelCall, list[Span]] = field(default_factory=dict)
    """By call, the tools that ran on its line before the next one ended."""
    names: dict[Span, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, calls: Iterable[tuple[ModelCall, Line, str]], tools: Iterable[tuple[Span, Line]]) -> ToolNames:
        """Find the calls that asked for tools; calls that have not ended asked for none."""
        found = cls()
        ended: defaultdict[Line, list[ModelCall]] = defaultdict(list)
        for call, line, _ in calls:
            if call.end_ns is not None:
                ended[line].append(call)
        for of_line in ended.values():
            of_line.sort(key=lambda call: call.end_ns or 0)
        for tool, line in sorted(tools, key=lambda one: one[0].start_ns):
            if (asking := _asking(ended[line], tool)) is not None:
                found.behind.setdefault(asking, []).append(tool)
            found.names[tool] = spellings.tool_name_of(tool)
        for call, ran in found.behind.items():
            found.names.update(_as_asked(call, ran))
        return found

    def asked_by(self, call: ModelCall) -> list[str]:
        """Return the names of the tools behind a call."""
        return [self.names[tool] for tool in self.behind.get(call, ())]


def _asking(calls: Sequence[ModelCall], tool: Span) -> ModelCall | None:
    """Return who asked for a tool, of calls by their ends: the last that had ended, or one behind it that is still told.

    A client that gets its answer in pieces may run a tool before the answer has ended.
    """
    place = bisect_right(calls, tool.start_ns, key=lambda call: call.end_ns or 0)
    before = calls[place - 1] if place else None
    after = calls[place] if place < len(calls) and calls[place].start_ns <= tool.start_ns else None
    is_behind = after is not None and (before is None or after.start_ns >= (before.end_ns or 0))
    return after if after is not None and is_behind and _asks_for_tools(after) else before


def _asks_for_tools(call: ModelCall) -> bool:
    return "tool_calls" in call.reasons or any(answer.get("tool_calls") for answer in call.said.answers)


def _as_asked(call: ModelCall, ran: Sequence[Span]) -> dict[Span, str]:
    """Return the names by which a call asked for tools: by their ids, else in order where none of their names is known."""
    asked = [one for answer in call.said.answers for one in answer.get("tool_calls") or ()]
    names: dict[Span, str] = {}
    for tool in ran:
        call_id, name = spellings.tool_call_id_of(tool), spellings.tool_name_of(tool)
        for one in asked:
            if (call_id and one["id"] == call_id) or (not call_id and one["function"]["name"] == name):
                names[tool] = one["function"]["name"]
                asked.remove(one)
                break
    left = [tool for tool in ran if tool not in names]
    if len(left) == len(asked):
        names.update((tool, one["function"]["name"]) for tool, one in zip(left, asked, strict=True))
    return names
