"""A request of any dialect as the chat request, or the text, that a server's own template and tokenizer can be asked about.

Servers that speak messages or responses beside chat bring them to chat themselves, much as here; whether the same tokens
come out is seen by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from rotoscope.recorder.dialects import completions, messages, responses
from rotoscope.recorder.dialects.request import NotACall, Request
from rotoscope.traces.journal import DialectName


def chat_form(dialect: DialectName, body: bytes) -> Mapping[str, Any] | str | None:
    """Return the chat request that a body comes to, or its text where it has no template; None where it has neither."""
    if dialect == "chat":
        request: dict[str, Any] = orjson.loads(body)
        return request
    read = _READERS.get(dialect)
    try:
        return None if read is None else read(body)
    except NotACall:
        return None


def _text(body: bytes) -> str | None:
    prompts = completions.DIALECT.read("", body).prompts
    return prompts[0].text if len(prompts) == 1 else None


def _of_messages(body: bytes) -> Mapping[str, Any] | None:
    request = messages.DIALECT.read("", body)
    tools = [
        _tool(tool.get("name"), tool.get("description"), tool.get("input_schema"))
        for tool in request.body.get("tools") or ()
        if isinstance(tool, dict)
    ]
    return _chat(request, tools)


def _of_responses(body: bytes) -> Mapping[str, Any] | None:
    request = responses.DIALECT.read("", body)
    if request.previous_response or request.conversation or request.prompts[0].unseen:
        return None
    tools = [
        _tool(tool.get("name"), tool.get("description"), tool.get("parameters"))
        for tool in request.body.get("tools") or ()
        if isinstance(tool, dict)
    ]
    return _chat(request, tools)


def _tool(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}


def _chat(request: Request, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    said = [_plain(message) for message in request.prompts[0].messages if message.get("name") != messages.REST]
    chat = {"model": request.body.get("model"), "messages": _with_one_system_message(said)}
    if kwargs := request.body.get("chat_template_kwargs"):
        chat["chat_template_kwargs"] = kwargs
    return chat | {"tools": tools} if tools else chat


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without what only our own comparison needs, its pieces in the form of chat."""
    plain = {key: value for key, value in message.items() if key != "name"}
    if isinstance(content := plain.get("content"), list):
        plain["content"] = [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in content]
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [{"type": "function"} | call for call in calls]
    return plain


def _with_one_system_message(said: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the system messages at the start, as servers join the blocks of a system text."""
    leading = next((index for index, message in enumerate(said) if message.get("role") != "system"), len(said))
    joined = "".join(str(message.get("content")) for message in said[:leading])
    return [*([{"role": "system", "content": joined}] if leading else []), *said[leading:]]


_READERS: dict[DialectName, Callable[[bytes], Mapping[str, Any] | str | None]] = {
    "completions": _text,
    "messages": _of_messages,
    "responses": _of_responses,
}
