"""Tools are called as the answer calls them that asked for them, whatever frameworks call their spans."""

from __future__ import annotations

import json
from typing import Any

from otlp_spans import Span, agent, chat, tool, trace_of

from rotoscope.traces.model import ToolCall

QUESTION = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How?"}]}])


def asks(*names: str) -> dict[str, Any]:
    calls = [{"type": "tool_call", "id": f"c{n}", "name": name, "arguments": {}} for n, name in enumerate(names)]
    told = [{"role": "assistant", "parts": calls}]
    return {"gen_ai.input.messages": QUESTION, "gen_ai.output.messages": json.dumps(told)}


def names_of(asked: dict[str, Any], *tools: tuple[str, dict[str, str]]) -> tuple[tuple[str, ...], list[str]]:
    """Return the tools that a call asked for, and those that ran by their starts."""
    top = agent(at=(0, 9))
    spans: list[Span] = [tool(name, told, at=(2 + n / 10, 3), parent=top) for n, (name, told) in enumerate(tools)]
    trace = trace_of(top, chat(9, 1, asked, at=(0, 1), parent=top), *spans, chat(99, 1, asked, at=(5, 6), parent=top))
    ran = sorted(
        (e.at_ms or 0, e.tool_name) for e in trace.events if isinstance(e, ToolCall) and e.time_source == "sdk"
    )
    return next(trace.calls()).tool_calls, [name for _, name in ran]


def test_tools_of_the_same_names_are_those_that_were_asked_for() -> None:
    asked, ran = names_of(asks("a", "b"), ("b", {}), ("a", {}))

    assert ran == [asked[1], asked[0]]


def test_a_span_of_another_name_is_of_the_tool_that_is_left() -> None:
    asked, ran = names_of(asks("a", "b"), ("use", {}), ("a", {}))

    assert ran == [asked[1], asked[0]]


def test_ids_tell_before_names() -> None:
    asked, ran = names_of(asks("a", "b"), ("b", {"gen_ai.tool.call.id": "c0"}), ("a", {"gen_ai.tool.call.id": "c1"}))

    assert ran == list(asked)


def test_tools_that_nobody_asked_for_keep_their_names() -> None:
    asked, ran = names_of(asks("a"), ("x", {}), ("y", {}))

    assert set(ran).isdisjoint(asked)
    assert len(set(ran)) == 2
