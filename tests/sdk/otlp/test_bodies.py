"""Calls as bytes on the wire: the recorder's dialects read them as they are meant."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rotoscope.recorder.usage import Usage
from rotoscope.sdk.otlp import bodies
from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.content import Said
from rotoscope.sdk.otlp.spans import Span

SPAN = Span(trace_id="a", span_id="b", start_ns=1, end_ns=10)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}
FLAT = {"type": "function", "name": "look", "parameters": {}}
SAID = Said(
    [{"role": "system", "content": "Be good."}, {"role": "user", "content": "How?"}],
    [{"role": "assistant", "content": "So."}],
)
CALL = ModelCall(span=SPAN, start_ns=1, end_ns=10, model="m", usage=Usage(10, 2, 4, 1), said=SAID, reasons=["stop"])


def test_a_chat_is_a_chat_completion() -> None:
    wire = bodies.chat(CALL, SAID)

    assert wire.path == "/v1/chat/completions"
    assert json.loads(wire.request) == {"model": "m", "n": 1, "messages": list(SAID.messages)}
    assert json.loads(wire.last) == {
        "choices": [{"index": 0, "message": SAID.answers[0], "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }


@pytest.mark.parametrize("tool", [TOOL, FLAT])
def test_tools_have_the_form_of_their_interface(tool: dict[str, Any]) -> None:
    said = replace(SAID, tools=[tool])

    assert json.loads(bodies.chat(CALL, said).request)["tools"] == [TOOL]
    assert json.loads(bodies.response(CALL, said, name="", previous="").request)["tools"] == [FLAT]


def test_what_is_no_function_stays_as_it_is() -> None:
    said = replace(SAID, tools=[{"type": "web_search"}, "x"])

    assert json.loads(bodies.chat(CALL, said).request)["tools"] == [{"type": "web_search"}, "x"]
    assert json.loads(bodies.response(CALL, said, name="", previous="").request)["tools"] == [
        {"type": "web_search"},
        "x",
    ]


def test_a_stream_begins_with_what_was_said_and_ends_with_what_was_counted() -> None:
    wire = bodies.chat(replace(CALL, first_ns=5), SAID)

    assert wire.content_type == "text/event-stream"
    assert json.loads(wire.first.removeprefix(b"data: "))["choices"][0]["delta"] == SAID.answers[0]
    assert wire.last.count(b"data: ") == 3
    assert wire.last.endswith(b"data: [DONE]\n\n")


def test_a_stream_that_came_to_no_end_has_none() -> None:
    wire = bodies.chat(replace(CALL, first_ns=5, usage=Usage(), reasons=[]), SAID)

    assert b"[DONE]" not in wire.last


def test_plain_text_is_a_completion() -> None:
    said = Said([{"role": "user", "content": "The Leie ends in"}], [{"role": "assistant", "content": " Ghent"}])

    wire = bodies.chat(replace(CALL, is_text=True), said)

    assert wire.path == "/v1/completions"
    assert json.loads(wire.request)["prompt"] == "The Leie ends in"
    assert json.loads(wire.last)["choices"] == [{"index": 0, "text": " Ghent", "finish_reason": "stop"}]


def test_a_response_has_its_instructions_apart() -> None:
    wire = bodies.response(CALL, SAID, name="r2", previous="r1")

    request, answer = json.loads(wire.request), json.loads(wire.last)
    assert (wire.path, request["instructions"], request["previous_response_id"]) == ("/v1/responses", "Be good.", "r1")
    assert request["input"] == [{"type": "message", "role": "user", "content": "How?"}]
    assert (answer["id"], answer["status"]) == ("r2", "completed")
    assert answer["usage"]["input_tokens_details"] == {"cached_tokens": 4}


def test_a_response_that_was_cut_is_incomplete() -> None:
    wire = bodies.response(replace(CALL, reasons=["length"]), SAID, name="", previous="")

    assert json.loads(wire.last)["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_call_that_failed_is_answered_with_an_error() -> None:
    failed = replace(CALL, is_error=True, usage=Usage(), said=replace(SAID, answers=[]))

    for wire in (bodies.chat(failed, failed.said), bodies.response(failed, failed.said, name="", previous="")):
        assert "error" in json.loads(wire.last)


def test_several_outputs_are_choices() -> None:
    said = replace(SAID, answers=[{"role": "assistant", "content": text} for text in ("So.", "No.")])

    wire = bodies.chat(replace(CALL, choices=2, reasons=["stop", "length"]), said)

    assert json.loads(wire.request)["n"] == 2
    choices = json.loads(wire.last)["choices"]
    assert [(one["message"]["content"], one["finish_reason"]) for one in choices] == [
        ("So.", "stop"),
        ("No.", "length"),
    ]


@pytest.mark.parametrize(
    ("reasons", "answer", "reason"),
    [
        (["stop", "tool_calls"], {}, "tool_calls"),
        (["length"], {"tool_calls": [{}]}, "length"),
        ([], {"tool_calls": [{}]}, "tool_calls"),
        ([], {}, None),
    ],
)
def test_an_output_ends_as_is_told_or_as_it_shows(
    reasons: list[str], answer: dict[str, Any], reason: str | None
) -> None:
    said = replace(SAID, answers=[{"role": "assistant", "content": "", **answer}])

    wire = bodies.chat(replace(CALL, reasons=reasons), said)

    assert json.loads(wire.last)["choices"][0].get("finish_reason") == reason
