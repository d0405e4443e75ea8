"""Prompts that hold only what is new: which call has what stands before them."""

from __future__ import annotations

import json
from typing import Any

from otlp_spans import agent, calls_of, chat

from rotoscope.traces.model import Call

QUESTION = {"role": "user", "parts": [{"type": "text", "content": "How is the weather in the towns?"}]}


def asks(*ids: str) -> dict[str, Any]:
    calls = [{"type": "tool_call", "id": one, "name": "weather", "arguments": {}} for one in ids]
    return {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": calls}])}


def results(*ids: str) -> dict[str, Any]:
    told = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": one, "response": "rain"}]} for one in ids]
    return {"gen_ai.input.messages": json.dumps(told)}


def played(*told: dict[str, Any]) -> list[Call]:
    """Return the calls of spans of the Responses API whose prompts grow."""
    top = agent(at=(0, 100))
    spans = [
        chat(100 + 50 * n, 10, {"openai.api.type": "responses", **one}, at=(n, n + 0.5), parent=top)
        for n, one in enumerate(told)
    ]
    return calls_of(top, *spans)


ASKED = {"gen_ai.input.messages": json.dumps([QUESTION]), **asks("a", "b"), "gen_ai.response.id": "resp_1"}


def test_a_prompt_goes_on_from_the_response_that_it_names() -> None:
    named = {"gen_ai.input.messages": json.dumps([QUESTION]), "gen_ai.request.previous_response.id": "resp_1"}

    _, second = played(ASKED, named)

    assert (second.prefix.of, second.prefix.source) == (0, "assumed")
    assert second.prefix.tokens >= 100


def test_results_of_tools_go_on_from_the_call_that_asked_for_them() -> None:
    _, second, third = played(ASKED, {**results("a", "b"), **asks("c")}, results("c"))

    assert (second.prefix.of, second.prefix.source) == (0, "assumed")
    assert (third.prefix.of, third.prefix.source) == (1, "assumed")


def test_results_under_other_ids_go_on_from_the_only_call_that_asked_for_so_many() -> None:
    assert played(ASKED, results("x", "y"))[1].prefix.of == 0
    assert played(ASKED, results("x"))[1].prefix.of is None


def test_results_under_other_ids_do_not_go_on_from_one_of_two_calls() -> None:
    other = {**ASKED, **asks("c", "d"), "gen_ai.response.id": "resp_2"}

    assert played(ASKED, other, results("x", "y"))[2].prefix.of != 0


def test_a_history_that_was_not_seen_may_be_anything() -> None:
    named = {"gen_ai.input.messages": json.dumps([QUESTION]), "gen_ai.request.previous_response.id": "resp_0"}

    _, second = played(ASKED, named)

    assert (second.prefix.of, second.prefix.source, second.prefix.greatest) == (None, "opaque", 150)
