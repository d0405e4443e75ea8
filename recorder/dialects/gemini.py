"""Gemini's generateContent: contents into messages, and the chunks of an answer into its candidates.

The model is in the path. Fields are read in both spellings that the service takes. Signatures of thinking stand for the
thinking, in front of all else, wherever the client keeps them; texts that follow one another are one, because a client
may send back in one piece what came in several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any

from rotoscope.recorder.canonical import Part, tools_part
from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.domain import cache_domain
from rotoscope.recorder.dialects.pieces import (
    Media,
    Piece,
    PiecedOutput,
    Text,
    Thinking,
    ToolUse,
    assistant_message,
    content_of,
    written_out,
)
from rotoscope.recorder.dialects.request import NotACall, Prompt, Request
from rotoscope.recorder.dialects.wire_json import inner, parsed, parsed_body
from rotoscope.recorder.usage import Usage, gemini_usage
from rotoscope.traces.model import FinishReason

MOST_CANDIDATES = 8

_PATH = re.compile(r"([^/]*)(?::|%3[Aa])(generateContent|streamGenerateContent)$")
_TEMPLATE_FIELDS = (
    "mediaResolution",
    "responseJsonSchema",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "speechConfig",
    "thinkingConfig",
)
"""What of the generation's settings the model may be told."""
_MEDIA = ("inlineData", "fileData")
_NO_SIGNATURES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What clients send where there is no signature and the service wants one: no thinking stands behind it."""
_FINISH_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
}


def parse_request(path: str, body: bytes) -> Request:
    """Read a request body. Raises NotACall; the message holds nothing of the body."""
    outer = parsed_body(body)
    request = inner(outer, "request") or outer
    if not isinstance(contents := request.get("contents"), list) or not contents:
        raise NotACall("the body has no contents")
    found = _PATH.search(path)
    model, method = found.groups() if found else ("", "")
    settings = _dict(request, "generationConfig")
    system = _system(request)
    choices = _get(settings, "candidateCount")
    return Request(
        body=outer,
        domain=cache_domain(model or outer.get("model"), None),
        prompts=(
            Prompt(
                messages=[*system, *chat_messages(contents)],
                tools=_tools(request, settings),
                tools_at=len(system),
                unseen=written_out(_get(request, "cachedContent") or None),
            ),
        ),
        choices=min(choices, MOST_CANDIDATES) if isinstance(choices, int) and choices > 1 else 1,
        is_stream=method == "streamGenerateContent",
    )


def chat_messages(contents: Iterable[Any]) -> list[dict[str, Any]]:
    """Bring contents to the form of chat completions.

    Clients send an answer back as one content, or as one for each chunk in which it came.
    """
    messages: list[dict[str, Any]] = []
    for is_said, group in groupby(
        contents, lambda content: isinstance(content, dict) and content.get("role") == "model"
    ):
        if is_said:
            messages.append(_said(list(group)))
        else:
            messages.extend(brought for content in group for brought in _brought(content))
    return messages


def _said(contents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the model said as one message; that it is told in several contents is in its exact form alone."""
    message = assistant_message(_pieces([part for content in contents for part in _parts(content)]))
    return message if len(contents) == 1 else message | {"name": f"{message.get('name', '')} {len(contents)} contents"}


def _parts(content: dict[str, Any]) -> list[Any]:
    parts = content.get("parts")
    return parts if isinstance(parts, list) and parts else [parts]


def _brought(content: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(content, dict):
        yield {}
        return
    parts = _parts(content)
    for is_result, group in groupby(
        parts, lambda part: isinstance(part, dict) and bool(_get(part, "functionResponse"))
    ):
        if is_result:
            yield from (_result(_get(part, "functionResponse")) for part in group)
        else:
            yield {"role": "user", "content": content_of([_piece(part) for part in group])}


def _result(response: Any) -> dict[str, Any]:
    """Return the result of a tool as a message: one text as it is, what has more fields as JSON that is laid out anew."""
    told = response if isinstance(response, dict) else {}
    parts, fields = told.get("parts"), told.get("response")
    said = [_piece(part) for part in parts] if isinstance(parts, list) else []
    name, call_id = written_out(told.get("name")), written_out(told.get("id"))
    message = {"role": "tool", "tool_call_id": call_id}
    if isinstance(fields, dict) and len(fields) == 1 and isinstance(text := next(iter(fields.values())), str):
        return message | {"name": f"{name} {next(iter(fields))}", "content": content_of([Text(text), *said])}
    laid_out = {"function": {"name": name, "arguments": written_out(fields)}}
    return message | {"content": content_of(said), "tool_calls": [laid_out]}


def _system(request: dict[str, Any]) -> list[dict[str, Any]]:
    told = _get(request, "systemInstruction")
    parts = told.get("parts") if isinstance(told, dict) else told
    said = content_of([_piece(part) for part in (parts if isinstance(parts, list) else [parts])])
    return [{"role": "system", "content": said}] if said else []


def _tools(request: dict[str, Any], settings: dict[str, Any]) -> Part | None:
    tools = request.get("tools") or None
    rest = {name: value for name in _TEMPLATE_FIELDS if (value := _get(settings, name)) not in (None, {}, [])}
    config = _get(request, "toolConfig")
    if isinstance(config, dict) and _get(_dict(config, "functionCallingConfig"), "mode") not in (None, "AUTO"):
        rest["toolConfig"] = config
    return tools_part(tools, rest) if tools or rest else None


def _pieces(parts: Sequence[Any]) -> list[Piece]:
    """Return the pieces of what the model said: its thinking, then the others, texts that stand together as one."""
    signed = [written_out(_get(part, "thoughtSignature")) for part in parts if isinstance(part, dict)]
    signatures = [signature for signature in signed if signature and signature not in _NO_SIGNATURES]
    if signatures:
        thinking = [Thinking("\n".join(signatures), is_hidden=True)]
    else:
        thinking = [Thinking("".join(written_out(part.get("text")) for part in parts if _is_thought(part)))]
    said = [piece for part in parts if not _is_thought(part) for piece in [_piece(part)] if piece != Text("")]
    joined: list[Piece] = []
    for is_text, group in groupby(said, lambda piece: isinstance(piece, Text)):
        if is_text:
            joined.append(Text("".join(piece.text for piece in group if isinstance(piece, Text))))
        else:
            joined.extend(group)
    return [*thinking, *joined]


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and bool(part.get("thought"))


def _piece(part: Any) -> Piece:
    if not isinstance(part, dict):
        return Text(written_out(part))
    if isinstance(call := _get(part, "functionCall"), dict):
        arguments = written_out(call.get("args") or {})
        return ToolUse(written_out(call.get("id")), written_out(call.get("name")), arguments)
    if any(_get(part, name) for name in _MEDIA):
        return Media(_unsigned(part))
    if "text" in part:
        return Text(written_out(part["text"]))
    rest = _unsigned(part)
    return Text(written_out(rest) if rest else "")


def _unsigned(part: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in part.items() if key not in ("thoughtSignature", "thought_signature", "thought")
    }


@dataclass(slots=True)
class Candidate(PiecedOutput):
    """One candidate as it arrives."""

    parts: list[Any] = field(default_factory=list, repr=False)

    def pieces(self) -> list[Piece]:
        return _pieces(self.parts)

    def add(self, parts: Any, at_s: float) -> None:
        """Take in the parts of a chunk."""
        new = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        self.parts.extend(new)
        if any(part.get("text") or set(part) - {"text", "thought", "thoughtSignature"} for part in new):
            self.spoke(at_s)


@dataclass(slots=True)
class GeminiAnswer:
    """An answer as it arrives, in pieces or whole."""

    outputs: list[Candidate]
    usage: Usage | None = None
    is_error: bool = False
    is_done: bool = False
    unread: int = 0
    response_id: str = ""
    _finished: set[int] = field(default_factory=set)

    def take_event(self, data: bytes, at_s: float) -> bool:
        """Take in an event of a response stream; there is none to withhold."""
        if data and data != b"[DONE]":
            self._take(parsed(data), at_s)
        return False

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take in an answer that came in one piece, or as a list of chunks."""
        answer = parsed(body)
        for chunk in answer if isinstance(answer, list) else [answer]:
            self._take(chunk, at_s)
        self.is_done = self.is_done or not (self.is_error or self.unread)

    def _take(self, chunk: Any, at_s: float) -> None:
        if not isinstance(chunk, dict):
            self.unread += 1
            return
        chunk = inner(chunk, "response") or chunk
        candidates = chunk.get("candidates")
        for place, candidate in enumerate(candidates if isinstance(candidates, list) else ()):
            if isinstance(candidate, dict):
                self._take_candidate(candidate, place, at_s)
        if isinstance(usage := _get(chunk, "usageMetadata"), dict):
            self.usage = gemini_usage(usage).or_else(self.usage)
        self.is_error = self.is_error or bool(chunk.get("error"))
        if _get(_dict(chunk, "promptFeedback"), "blockReason"):
            for index, output in enumerate(self.outputs):
                output.finish_reason = "content_filter"
                self._finished.add(index)
        self.is_done = len(self._finished) == len(self.outputs) and not self.is_error

    def _take_candidate(self, candidate: dict[str, Any], place: int, at_s: float) -> None:
        index = candidate.get("index", place)
        if not isinstance(index, int) or not 0 <= index < len(self.outputs):
            return
        output = self.outputs[index]
        output.add(_dict(candidate, "content").get("parts"), at_s)
        if reason := _get(candidate, "finishReason"):
            output.finish_reason = _FINISH_REASONS.get(str(reason), "unknown")
            if output.finish_reason == "stop" and output.tool_names:
                output.finish_reason = "tool_calls"
            self._finished.add(index)


def _get(fields: dict[str, Any], name: str) -> Any:
    """Return a field by its name in camel case, in which it may be or in snake case."""
    value = fields.get(name)
    return fields.get(_in_snake_case(name)) if value is None else value


@lru_cache
def _in_snake_case(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def _dict(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value = _get(fields, name)
    return value if isinstance(value, dict) else {}


DIALECT = Dialect(
    "gemini",
    matches=lambda path: _PATH.search(path) is not None,
    read=parse_request,
    answer=lambda outputs: GeminiAnswer([Candidate() for _ in range(outputs)]),
    has_terminal_event=False,
    streams_lists=True,
    growing="contents",
    messages=chat_messages,
)
