"""Prompts and answers in every spelling: each brings the same messages, and what is hidden or cut brings none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from otlp_spans import chat, file_of

from rotoscope.sdk.otlp.content import Said, said_in, text_of
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.traces.formats.source import Source

ARGUMENTS = {"town": "Ghent"}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be good."},
    {"role": "user", "content": "How is the weather?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town":"Ghent"}'}}
        ],
    },
    {"role": "tool", "content": "rain", "tool_call_id": "c1"},
]
ANSWER: dict[str, Any] = {"role": "assistant", "content": "It rains."}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": {}}}


def said(told: Mapping[str, Any], *, choices: int = 1, **where: Any) -> Said:
    (span,) = read_spans(Source.of_bytes(file_of(chat(1, 1, told, at=(0, 1), **where))))
    return said_in(span, choices)


def parts(role: str, *inner: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(inner)}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


CALL = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": ARGUMENTS}
RESULT = {"type": "tool_call_response", "id": "c1", "response": "rain"}
GENAI = {
    "gen_ai.input.messages": json.dumps(
        [
            parts("system", text("Be good.")),
            parts("user", text("How is the weather?")),
            parts("assistant", text("I look."), CALL),
            parts("tool", RESULT),
        ]
    ),
    "gen_ai.output.messages": json.dumps([parts("assistant", text("It rains."))]),
    "gen_ai.tool.definitions": json.dumps([TOOL]),
}
EVENTS = [
    ("gen_ai.system.message", 0, {"content": "Be good."}),
    ("gen_ai.user.message", 0, {"content": "How is the weather?"}),
    ("gen_ai.assistant.message", 0, {"content": "I look.", "tool_calls": json.dumps(MESSAGES[2]["tool_calls"])}),
    ("gen_ai.tool.message", 0, {"content": "rain", "id": "c1"}),
    ("gen_ai.choice", 1, {"message": json.dumps({"content": "It rains."}), "finish_reason": "stop"}),
]

SPELLINGS: dict[str, dict[str, Any]] = {
    "GenAI": {"told": GENAI},
    "GenAI, values of OpenTelemetry": {
        "told": {name: json.loads(value) for name, value in GENAI.items() if name != "gen_ai.tool.definitions"}
    },
    "GenAI, instructions apart": {
        "told": {
            **GENAI,
            "gen_ai.system_instructions": json.dumps([text("Be good.")]),
            "gen_ai.input.messages": json.dumps(json.loads(GENAI["gen_ai.input.messages"])[1:]),
        }
    },
    "GenAI, instructions apart as text": {
        "told": {
            **GENAI,
            "gen_ai.system_instructions": "Be good.",
            "gen_ai.input.messages": json.dumps(json.loads(GENAI["gen_ai.input.messages"])[1:]),
        }
    },
    "GenAI, in an event": {
        "told": {},
        "events": [("gen_ai.client.inference.operation.details", 1, GENAI)],
    },
    "GenAI, messages of a chat": {
        "told": {"gen_ai.input.messages": json.dumps(MESSAGES), "gen_ai.output.messages": json.dumps([ANSWER])}
    },
    "GenAI, an event a message": {"told": {}, "events": EVENTS},
    "Azure, an event a message": {
        "told": {},
        "events": [(name, at_s, {"gen_ai.event.content": json.dumps(inner)}) for name, at_s, inner in EVENTS],
    },
    "Logfire, events in an attribute": {
        "told": {"events": json.dumps([{"event.name": name, **inner} for name, _, inner in EVENTS])}
    },
    "OpenInference": {
        "told": {
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Be good.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.contents.0.message_content.type": "text",
            "llm.input_messages.1.message.contents.0.message_content.text": "How is the weather?",
            "llm.input_messages.2.message.role": "assistant",
            "llm.input_messages.2.message.content": "I look.",
            "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
            "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "weather",
            "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"town": "Ghent"}',
            "llm.input_messages.3.message.role": "tool",
            "llm.input_messages.3.message.tool_call_id": "c1",
            "llm.input_messages.3.message.content": "rain",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "It rains.",
            "llm.tools.0.tool.json_schema": json.dumps(TOOL),
        }
    },
    "Traceloop, as it was": {
        "told": {
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "Be good.",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": "How is the weather?",
            "gen_ai.prompt.2.role": "assistant",
            "gen_ai.prompt.2.content": "I look.",
            "gen_ai.prompt.2.tool_calls.0.id": "c1",
            "gen_ai.prompt.2.tool_calls.0.name": "weather",
            "gen_ai.prompt.2.tool_calls.0.arguments": '{"town": "Ghent"}',
            "gen_ai.prompt.3.role": "tool",
            "gen_ai.prompt.3.tool_call_id": "c1",
            "gen_ai.prompt.3.content": "rain",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "It rains.",
            "gen_ai.completion.0.finish_reason": "stop",
        }
    },
    "Vercel": {
        "told": {
            "ai.prompt.messages": json.dumps(
                [
                    {"role": "system", "content": "Be good."},
                    {"role": "user", "content": [{"type": "text", "text": "How is the weather?"}]},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "text", "text": "I look."},
                            {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": ARGUMENTS},
                        ],
                    },
                    {
                        "role": "tool",
                        "content": [
                            {"type": "tool-result", "toolCallId": "c1", "toolName": "weather", "output": "rain"},
                        ],
                    },
                ]
            ),
            "ai.response.text": "It rains.",
            "ai.prompt.tools": [json.dumps(TOOL)],
        }
    },
    "Langfuse": {
        "told": {
            "langfuse.observation.input": json.dumps({"messages": MESSAGES, "tools": [TOOL]}),
            "langfuse.observation.output": json.dumps(ANSWER),
        }
    },
    "Langfuse, an answer in plain text": {
        "told": {
            "langfuse.observation.input": json.dumps(MESSAGES),
            "langfuse.observation.output": "It rains.",
        }
    },
}


@pytest.mark.parametrize("told", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_brings_the_same_messages(told: dict[str, Any]) -> None:
    found = said(**told)

    assert list(found.messages) == MESSAGES
    assert list(found.answers) == [ANSWER]
    assert list(found.tools) in ([], [TOOL])


def test_an_answer_of_vercels_sdk_may_ask_for_tools() -> None:
    asked = [{"toolCallType": "function", "toolCallId": "c1", "toolName": "weather", "args": json.dumps(ARGUMENTS)}]
    told = {"ai.prompt.messages": '[{"role": "user", "content": "Hi."}]', "ai.response.toolCalls": json.dumps(asked)}

    (answer,) = said(told).answers

    assert answer["tool_calls"] == MESSAGES[2]["tool_calls"]


def test_items_of_a_response_are_one_answer_and_its_history() -> None:
    items = [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"town": "Ghent"}'},
    ]
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}

    found = said(
        {
            "langfuse.observation.input": json.dumps([{"role": "user", "content": "How?"}, *items, result]),
            "langfuse.observation.output": json.dumps(items),
        }
    )

    asked = {**MESSAGES[2], "reasoning_content": "Hm."}
    assert list(found.messages) == [{"role": "user", "content": "How?"}, asked, MESSAGES[3]]
    assert list(found.answers) == [asked]


def test_parts_of_an_answer_that_stand_apart_are_one_answer() -> None:
    told = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "How?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.type": "reasoning",
        "llm.output_messages.1.message.role": "assistant",
        "llm.output_messages.1.message.contents.0.message_content.type": "text",
        "llm.output_messages.1.message.contents.0.message_content.text": "I look.",
        "llm.output_messages.2.message.role": "assistant",
        "llm.output_messages.2.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.2.message.tool_calls.0.tool_call.function.name": "weather",
        "llm.output_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"town": "Ghent"}',
    }

    assert list(said(told).answers) == [MESSAGES[2]]


def test_several_outputs_are_several_answers_where_so_many_were_asked_for() -> None:
    answers = json.dumps([parts("assistant", text("One.")), parts("assistant", text("Two."))])
    told = {"gen_ai.input.messages": json.dumps([parts("user", text("How?"))]), "gen_ai.output.messages": answers}

    assert [answer["content"] for answer in said(told, choices=2).answers] == ["One.", "Two."]
    assert [answer["content"] for answer in said(told).answers] == ["One.Two."]


def test_each_result_in_a_message_of_langfuse_is_a_message() -> None:
    results = [RESULT, {"type": "tool_call_response", "id": "c2", "response": "sun"}]

    found = said({"langfuse.observation.input": json.dumps([parts("tool", *results)])})

    assert [(message["content"], message["tool_call_id"]) for message in found.messages] == [
        ("rain", "c1"),
        ("sun", "c2"),
    ]


def test_what_is_no_text_stays_a_piece_of_the_message() -> None:
    image = {"type": "blob", "mime_type": "image/png", "content": "aGk="}
    told = {"gen_ai.input.messages": json.dumps([parts("user", text("What is this?"), image)])}

    assert said(told).messages[0]["content"] == [{"type": "text", "text": "What is this?"}, image]


def test_thinking_is_kept_apart() -> None:
    told = {
        "gen_ai.input.messages": json.dumps([parts("user", text("How?"))]),
        "gen_ai.output.messages": json.dumps(
            [parts("assistant", {"type": "thinking", "content": "Hm."}, text("It rains."))]
        ),
    }

    assert said(told).answers == [{**ANSWER, "reasoning_content": "Hm."}]


def test_arguments_are_the_same_as_values_and_as_text() -> None:
    written = {**CALL, "arguments": '{ "town" :  "Ghent" }'}
    one, other = (
        said({"gen_ai.input.messages": json.dumps([parts("assistant", call)])}).messages for call in (CALL, written)
    )

    assert one == other


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"gen_ai.input.messages": GENAI["gen_ai.input.messages"][:-9]},
        {"gen_ai.input.messages": "[]"},
        {"gen_ai.input.messages": "7"},
        {"gen_ai.output.messages": GENAI["gen_ai.output.messages"]},
        {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "__REDACTED__"},
        {"gen_ai.prompt.x.role": "user"},
        {**GENAI, "gen_ai.system_instructions": json.dumps([text("Be good.")])[:-9], "gen_ai.output.messages": ""},
        {**GENAI, "gen_ai.tool.definitions": GENAI["gen_ai.tool.definitions"][:-9], "gen_ai.output.messages": ""},
        {"langfuse.observation.input": json.dumps({"messages": MESSAGES})[:-9]},
        {"langfuse.observation.output": "It rains."},
    ],
    ids=str,
)
def test_what_is_hidden_cut_or_not_there_is_no_content(told: dict[str, str]) -> None:
    assert not said(told).messages
    assert not said(told).answers


TEXT_ALONE = {"type": "text"}
RESULT_ALONE = {"type": "tool_call_response", "id": "c", "name": "look"}


@pytest.mark.parametrize(
    "parts_told", [[TEXT_ALONE], [text("You are."), TEXT_ALONE], [RESULT_ALONE]], ids=["text", "half", "result"]
)
def test_a_prompt_whose_parts_have_their_types_alone_is_none(parts_told: list[dict[str, Any]]) -> None:
    told = {"gen_ai.input.messages": json.dumps([parts("user", *parts_told)])}

    assert not said(told).messages


def test_an_event_that_names_a_message_without_its_text_is_no_content() -> None:
    events = [("gen_ai.user.message", 0, {"gen_ai.system": "openai"}), ("gen_ai.choice", 1, {"finish_reason": "stop"})]

    found = said({}, events=events)

    assert not found.messages
    assert found.finish_reasons == ("stop",)


@pytest.mark.parametrize("body", ["[1]", '[{"content": "Hi."}]', "[]", "1", "Hi."])
def test_an_event_whose_body_is_no_object_is_no_content(body: str) -> None:
    events = [("gen_ai.user.message", 0, {"body": body}), ("gen_ai.choice", 1, {"gen_ai.event.content": body})]

    assert not said({}, events=events).messages


@pytest.mark.parametrize("content", ["[]", "[1, 2]", '["a", {"text": "b"}]'])
def test_text_of_an_event_that_looks_like_a_list_stays_text(content: str) -> None:
    (message,) = said({}, events=[("gen_ai.user.message", 0, {"content": content})]).messages

    assert message["content"] == content


@pytest.mark.parametrize("hidden", [{"message_content.text": "__REDACTED__"}, {}])
def test_a_message_of_which_a_piece_is_hidden_is_hidden(hidden: dict[str, str]) -> None:
    pieces = [{"message_content.type": "text", **inner} for inner in ({"message_content.text": "Hi."}, hidden)]
    told = {"llm.input_messages.0.message.role": "user"}
    for number, piece in enumerate(pieces):
        told |= {f"llm.input_messages.0.message.contents.{number}.{name}": text for name, text in piece.items()}

    assert not said(told).messages


def test_content_of_which_the_exporter_left_something_out_is_none() -> None:
    assert said(GENAI).messages
    assert not said(GENAI, droppedAttributesCount=1).messages


def test_the_prompt_of_a_completion_is_text() -> None:
    told = {"llm.prompts.0.prompt.text": "The Leie ends in", "llm.choices.0.completion.text": " Ghent"}

    found = said(told)

    assert text_of(found.messages) == "The Leie ends in"
    assert text_of(found.answers) == " Ghent"


def test_content_that_no_json_can_hold_is_read_all_the_same() -> None:
    told = chat(1, 1, {"gen_ai.input.messages": ""}, at=(0, 1))
    inner = json.dumps(json.dumps([parts("user", text("\\ud800"))]))
    data = file_of(told).replace(b'{"stringValue":""}', b'{"stringValue":%b}' % inner.encode())
    (span,) = read_spans(Source.of_bytes(data))

    assert len(said_in(span, 1).messages) in (0, 1)
