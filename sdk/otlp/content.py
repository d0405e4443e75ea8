"""What spans tell of prompts and answers, brought to the form of chat completions; it lives until its digests are taken.

Read are, in this order: the JSON attributes of the GenAI conventions; the flat attributes of OpenInference and of
Traceloop; the JSON of Langfuse and of Vercel's AI SDK; the events that older conventions have for each message. What was hidden, cut or left out by
the exporter is no content: a prompt whose text is not all there is taken for one that is not told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from rotoscope.recorder.dialects.responses import DIALECT as RESPONSES
from rotoscope.sdk.otlp.spans import Span, numbered
from rotoscope.sdk.otlp.spellings import json_of

Message: TypeAlias = dict[str, Any]
"""A message of a chat completion."""

_REDACTED = ("__REDACTED__", "[REDACTED]", "<redacted>")
_LEFT_OUT = _REDACTED[0]
"""Stands for a text that has a place in the span, but is not in it."""
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"
_DETAILS = "gen_ai.client.inference.operation.details"
"""The event that has the content where the span shall not."""
_RESPONSE_ITEMS = ("function_call", "function_call_output", "message", "reasoning")


@dataclass(frozen=True, slots=True)
class Said:
    """A prompt and its answers."""

    messages: Sequence[Message] = field(repr=False)
    answers: Sequence[Message] = field(default=(), repr=False)
    """One an output; none where they are not told."""
    tools: Sequence[Any] = field(default=(), repr=False)
    finish_reasons: tuple[str, ...] = ()
    """As the outputs say."""


NOTHING = Said(())


def said_in(span: Span, choices: int) -> Said:
    """Return what a span tells of a prompt and its answers; `choices` is how many outputs were asked for."""
    if not span.has_all:
        return NOTHING
    readers = (_genai, _openinference, _flat, _langfuse, _vercel, _events)
    told = [said for read in readers if (said := read(span)).messages or said.answers]
    said = next((x for x in told if x.messages), NOTHING)
    answers = said.answers or next((x.answers for x in told if x.answers), ())
    reasons = said.finish_reasons or next((x.finish_reasons for x in told if x.finish_reasons), ())
    if not said.messages or _is_hidden(said.messages):
        return Said((), (), (), reasons)
    answers = [] if _is_hidden(answers) else list(answers)
    return Said(_joined(said.messages), _outputs(answers, choices), said.tools, reasons)


def _is_hidden(messages: Sequence[Message]) -> bool:
    return any(message.get("content") in _REDACTED for message in messages)


def _outputs(answers: Sequence[Message], choices: int) -> list[Message]:
    """Return an answer for each output; the items of one are one."""
    if choices > 1 and len(answers) == choices:
        return list(answers)
    return _joined([{**answer, "role": "assistant"} for answer in answers])[:1]


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join messages of the assistant that stand together: some write each item of an answer as one."""
    joined: list[Message] = []
    for message in messages:
        if joined and message.get("role") == joined[-1].get("role") == "assistant":
            before = joined[-1]
            contents = [x for x in (before.get("content"), message.get("content")) if x]
            calls = [*(before.get("tool_calls") or ()), *(message.get("tool_calls") or ())]
            thoughts = [x for x in (before.get("reasoning_content"), message.get("reasoning_content")) if x]
            joined[-1] = _message("assistant", _content(contents), calls=calls, reasoning="".join(thoughts))
        else:
            joined.append(message)
    return joined


def _content(contents: Sequence[Any]) -> Any:
    """Return texts as one text, and texts with other pieces as a list; what is hidden in part is hidden."""
    if any(content in _REDACTED for content in contents if isinstance(content, str)):
        return _LEFT_OUT
    if all(isinstance(content, str) for content in contents):
        return "".join(contents)
    pieces: list[Any] = []
    for content in contents:
        pieces += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return pieces


def _message(role: str, content: Any, *, calls: Sequence[Any] = (), reasoning: str = "", call_id: str = "") -> Message:
    message: Message = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    if reasoning:
        message["reasoning_content"] = reasoning
    if call_id:
        message["tool_call_id"] = call_id
    return message


def _tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a tool call with its arguments as compact JSON, whether they came as text or as values."""
    value = json_of(arguments)
    text = _text(arguments if value is None else value)
    return {"id": _text(call_id), "type": "function", "function": {"name": _text(name), "arguments": text}}


def _text(value: Any) -> str:
    """Return a text as it is and any other value as JSON; what is nested too deep for that is nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:
        return ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [x for x in value if isinstance(x, dict)] if isinstance(value, list) else []


def _genai(span: Span) -> Said:
    """Read the attributes of the GenAI conventions, or the event that has them."""
    attributes = span.attributes
    for event in span.events:
        if event.name == _DETAILS:
            attributes = {**event.attributes, **attributes}
    asked, answered = (json_of(attributes.get(f"gen_ai.{name}.messages")) for name in ("input", "output"))
    instructions, schemas = attributes.get("gen_ai.system_instructions"), attributes.get("gen_ai.tool.definitions")
    tools = json_of(schemas)
    if _is_cut(instructions) or (schemas and tools is None):
        asked = None
    messages = _of_instructions(instructions)
    messages += [message for told in _dicts(asked) for message in _of_parts(told)]
    answers = [message for told in _dicts(answered) for message in _of_parts(told)]
    reasons = tuple(_text(told.get("finish_reason")) for told in _dicts(answered))
    tools = tools if isinstance(tools, list) else [tools] if tools else ()
    return Said(messages if asked is not None else (), answers, tools, reasons)


def _of_instructions(told: Any) -> list[Message]:
    """Return the instructions of a system, which stand as parts, as one of them, or as text."""
    parts = json_of(told)
    if not isinstance(parts, list):
        parts = [told if parts is None else parts] if told else []
    parts = [{"type": "text", "content": part} if isinstance(part, str) else part for part in parts]
    return _of_parts({"role": "system", "parts": parts}) if parts else []


def _is_cut(told: Any) -> bool:
    """Tell whether a text begins like JSON and is none: an exporter has cut it."""
    return isinstance(told, str) and told.startswith(("[{", '["', '{"')) and json_of(told) is None


def _of_parts(told: Mapping[str, Any]) -> list[Message]:
    """Return the messages that one message of the conventions is: each result of a tool is one."""
    role = _text(told.get("role")) or "user"
    if "parts" not in told:
        return [_of_chat(told)]
    contents: list[Any] = []
    calls: list[Any] = []
    results: list[Message] = []
    thoughts: list[str] = []
    for part in _dicts(told.get("parts")):
        match part.get("type"):
            case "text":
                contents.append(_told(part, "content"))
            case "tool_call":
                calls.append(_tool_call(part.get("id"), part.get("name"), part.get("arguments")))
            case "tool_call_response":
                result = _told(part, "response", "result", "content")
                results.append(_message("tool", result, call_id=_text(part.get("id"))))
            case "reasoning" | "thinking":
                thoughts.append(_text(part.get("content")))
            case _:
                contents.append([part])
    if results and not (contents or calls or thoughts):
        return results
    return [*results, _message(role, _content(contents), calls=calls, reasoning="".join(thoughts))]


def _told(part: Mapping[str, Any], *names: str) -> str:
    """Return the text under the first of these names that is there: without content, a part has its type alone."""
    return next((_text(part[name]) for name in names if name in part), _LEFT_OUT)


def _of_chat(told: Mapping[str, Any]) -> Message:
    """Return a message that is in the form of chat completions already."""
    content = told.get("content")
    calls = []
    for call in _dicts(told.get("tool_calls")):
        function = call["function"] if isinstance(call.get("function"), dict) else call
        arguments = function.get("arguments", function.get("args"))
        calls.append(_tool_call(call.get("id"), function.get("name"), arguments))
    return _message(
        _text(told.get("role")) or "user",
        content if isinstance(content, str | list) else _text(content),
        calls=calls,
        reasoning=_text(told.get("reasoning_content") or told.get("reasoning")),
        call_id=_text(told.get("tool_call_id")),
    )


def _openinference(span: Span) -> Said:
    """Read OpenInference's flat attributes; of a completion the prompt is text."""
    asked, answered = (
        [_of_openinference(told) for told in numbered(span.attributes, f"llm.{name}_messages.")]
        for name in ("input", "output")
    )
    if not asked:
        asked = [_message("user", _text(told.get("prompt.text"))) for told in numbered(span.attributes, "llm.prompts.")]
    if not answered:
        told_texts = numbered(span.attributes, "llm.choices.")
        answered = [_message("assistant", _text(told.get("completion.text"))) for told in told_texts]
    schemas = (told.get("tool.json_schema") for told in numbered(span.attributes, "llm.tools."))
    return Said(asked, answered, [json_of(schema) or schema for schema in schemas])


def _of_openinference(told: Mapping[str, Any]) -> Message:
    contents: list[Any] = [told["message.content"]] if isinstance(told.get("message.content"), str) else []
    thoughts: list[str] = []
    for part in numbered(told, "message.contents."):
        kind, text = part.get("message_content.type"), part.get("message_content.text")
        if kind == "reasoning":
            thoughts.append(_text(text))
        elif kind == "text" or isinstance(text, str):
            contents.append(text if isinstance(text, str) else _LEFT_OUT)
        else:
            contents.append([{key.removeprefix("message_content."): value for key, value in part.items()}])
    calls = [
        _tool_call(
            call.get("tool_call.id"), call.get("tool_call.function.name"), call.get("tool_call.function.arguments")
        )
        for call in numbered(told, "message.tool_calls.")
    ]
    role, call_id = _text(told.get("message.role")) or "user", _text(told.get("message.tool_call_id"))
    return _message(role, _content(contents), calls=calls, reasoning="".join(thoughts), call_id=call_id)


def _flat(span: Span) -> Said:
    """Read the flat attributes that older conventions of Traceloop have."""
    asked, answered = (
        [_of_flat(told) for told in numbered(span.attributes, f"gen_ai.{name}.")] for name in ("prompt", "completion")
    )
    reasons = tuple(_text(told.get("finish_reason")) for told in numbered(span.attributes, "gen_ai.completion."))
    tools = [
        {name: _parsed(value) for name, value in told.items()}
        for told in numbered(span.attributes, "llm.request.functions.")
    ]
    return Said(asked, [{**answer, "role": "assistant"} for answer in answered], tools, reasons)


def _parsed(value: Any) -> Any:
    """Return the schema of a tool as it is; it is written as JSON."""
    schema = json_of(value)
    return value if schema is None else schema


def _of_flat(told: Mapping[str, Any]) -> Message:
    calls = [_tool_call(x.get("id"), x.get("name"), x.get("arguments")) for x in numbered(told, "tool_calls.")]
    content, reasoning = told.get("content"), _text(told.get("reasoning"))
    pieces = json_of(content) if isinstance(content, str) and content[:2] == "[{" else None
    shown = pieces if _are_pieces(pieces) else _text(content)
    role, call_id = _text(told.get("role")) or "user", _text(told.get("tool_call_id"))
    return _message(role, shown, calls=calls, reasoning=reasoning, call_id=call_id)


def _are_pieces(value: Any, key: str = "type") -> bool:
    return isinstance(value, list) and all(isinstance(piece, dict) and key in piece for piece in value)


def _langfuse(span: Span) -> Said:
    """Read Langfuse's input and output: what its wrappers sent and got, as JSON or as plain text."""
    sent, got = (span.attributes.get(f"langfuse.observation.{name}") for name in ("input", "output"))
    if not isinstance(sent, str) or _is_cut(sent):
        return NOTHING
    request = json_of(sent)
    tools = request.get("tools") if isinstance(request, dict) else None
    messages: Any = sent if request is None else request
    if isinstance(request, dict):
        messages = request.get("messages", request.get("input", request.get("prompt", [request])))
    answer = json_of(got)
    told = got if answer is None else answer
    return Said(_of_any(messages), _of_any(told, role="assistant"), tools if isinstance(tools, list) else ())


def _vercel(span: Span) -> Said:
    """Read what Vercel's AI SDK sent to a model and got of it."""
    attributes = span.attributes
    asked = _dicts(json_of(attributes.get("ai.prompt.messages")))
    told = (("reasoning", "reasoning"), ("text", "text"), ("text", "object"))
    answered = ((kind, attributes.get(f"ai.response.{name}")) for kind, name in told)
    got = [{"type": kind, "text": text} for kind, text in answered if text]
    got += [{"type": "tool-call", **call} for call in _dicts(json_of(attributes.get("ai.response.toolCalls")))]
    tools = attributes.get("ai.prompt.tools")
    return Said(
        [message for told in asked for message in _of_vercel(told)],
        _of_vercel({"role": "assistant", "content": got}) if got else (),
        [_parsed(tool) for tool in tools] if isinstance(tools, list) else (),
    )


def _of_vercel(told: Mapping[str, Any]) -> list[Message]:
    content = told.get("content")
    if not isinstance(content, list):
        return [_of_chat(told)]
    return _of_parts({"role": told.get("role"), "parts": [_vercel_part(part) for part in _dicts(content)]})


def _vercel_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a piece of a message as the GenAI conventions have it."""
    call_id, name = part.get("toolCallId"), part.get("toolName")
    match part.get("type"):
        case "text" | "reasoning" as kind if "text" in part:
            return {"type": kind, "content": part["text"]}
        case "tool-call":
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": part.get("input", part.get("args"))}
        case "tool-result":
            return {"type": "tool_call_response", "id": call_id, "response": part.get("output", part.get("result"))}
    return part


def _of_any(told: Any, role: str = "user") -> list[Message]:
    """Return messages of a text, a message, or a list of messages or of items of a response."""
    if isinstance(told, str):
        return [_message(role, told)] if told else []
    items = _dicts(told) if isinstance(told, list) else [told] if isinstance(told, dict) else []
    if any(item.get("type") in _RESPONSE_ITEMS for item in items):
        return [_of_chat(message) for message in RESPONSES.messages(items)]
    return [message for item in items for message in _of_parts({"role": role, **item})]


def _events(span: Span) -> Said:
    """Read the events of older conventions, one a message, or the list of them that Logfire puts in an attribute."""
    listed = _dicts(json_of(span.attributes.get("events")))
    told = [(_text(event.get("event.name")), event) for event in listed]
    told += [(event.name, dict(event.attributes)) for event in span.events]
    messages: list[Message] = []
    answers: list[Message] = []
    reasons: list[str] = []
    for name, attributes in told:
        bodies = (json_of(attributes.get(key)) for key in ("gen_ai.event.content", "body"))
        body = next((x for x in bodies if x and isinstance(x, dict)), attributes)
        if name in _EVENT_ROLES:
            messages.append(_of_event({"role": _EVENT_ROLES[name]}, body))
        elif name == _CHOICE:
            inner = json_of(body.get("message"))
            answers.append(_of_event({"role": "assistant"}, inner if isinstance(inner, dict) else body))
            reasons.append(_text(body.get("finish_reason")))
        elif name == "gen_ai.content.prompt":
            messages += _of_any(json_of(attributes.get("gen_ai.prompt")))
        elif name == "gen_ai.content.completion":
            answers += _of_any(json_of(attributes.get("gen_ai.completion")), role="assistant")
    return Said(messages, answers, (), tuple(reasons))


def _of_event(role: Message, body: Mapping[str, Any]) -> Message:
    told = {**body, **role, "tool_calls": json_of(body.get("tool_calls"))}
    if "content" not in body and not told["tool_calls"]:
        return _message(role["role"], _LEFT_OUT)
    content = json_of(body.get("content"))
    if content and (_are_pieces(content) or _are_pieces(content, "text")):
        told["content"] = [{"type": "text", **piece} for piece in content]
    if role["role"] == "tool":
        told["tool_call_id"] = body.get("tool_call_id", body.get("id"))
    return _of_chat(told)


def text_of(messages: Sequence[Message]) -> str:
    """Return the prompt of a completion that was told as messages."""
    return "".join(_text(message.get("content")) for message in messages)
