"""Anthropic messages: content blocks into pieces, and the events of an answer into the blocks that it delivers.

Tools stand before the system text, as Anthropic's own prompts have them; a server that renders a chat template may put
them behind it, which the bounds of prefixes allow for. What changes only the prompt's messages, such as how to think,
stands behind the system text. Cache marks are in no form: clients move them from call to call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rotoscope.recorder.canonical import Part, tools_part
from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.domain import cache_domain, model_of
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
from rotoscope.recorder.usage import Usage, messages_usage
from rotoscope.traces.model import FinishReason

PATH = "/messages"
_VERTEX = (":rawPredict", ":streamRawPredict")

_CACHE_MARK = "cache_control"
_QUOTED_MARK = f'"{_CACHE_MARK}"'.encode()
_MARKS = re.compile(_QUOTED_MARK + rb"\s*:\s*(?:\{[^{}]*\}|null)\s*")
_TOOLS_FIELDS = ("mcp_servers", "chat_template", "chat_template_kwargs")
_MESSAGES_FIELDS = ("thinking", "context_management", "output_config", "output_format")
"""What a server may tell the model behind its system text."""
_MEDIA = ("image", "document", "container_upload", "audio", "video")
_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
REST = "rest"
"""The name of a message that stands for what a template may read beside the messages."""
_PROMPT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def parse_request(path: str, body: bytes) -> Request:
    """Read a request body. Raises NotACall; the message holds nothing of the body."""
    request = parsed_body(body)
    if not isinstance(messages := request.get("messages"), list) or not messages:
        raise NotACall("the body has no messages")
    salts = [request.get(name) for name in ("speed", "inference_geo")]
    return Request(
        body=request,
        domain=cache_domain(model_of(path, request), request.get("cache_salt"), *salts),
        prompts=(Prompt(messages=[*_system(request), *chat_messages(messages)], tools=_tools(request), tools_at=0),),
        is_stream=bool(request.get("stream")),
    )


def unmarked(body: bytes) -> bytes:
    """Return a body without cache marks, so that a body which goes on from another begins like it."""
    if _QUOTED_MARK not in body:
        return body
    kept, start = [], 0
    for mark in _MARKS.finditer(body):
        before, end = body[start : mark.start()], mark.end()
        if body[end : end + 1] == b",":
            end += 1
        else:
            before = before.rstrip().removesuffix(b",")
        kept.append(before)
        start = end
    return b"".join((*kept, body[start:]))


def chat_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Bring messages to the form of chat completions."""
    return [brought for message in messages for brought in _brought(message)]


def _brought(message: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(message, dict):
        yield {}
        return
    role, content = str(message.get("role")), message.get("content")
    if role == "assistant":
        yield assistant_message(_pieces(content))
    elif isinstance(content, list):
        yield from _apart(role, content)
    else:
        yield {"role": role, "content": written_out(content)}


def _apart(role: str, blocks: list[Any]) -> Iterator[dict[str, Any]]:
    """Take the results of tools out of a message of the user: each is a message of its own, in its place."""
    between: list[Piece] = []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            if between:
                yield {"role": role, "content": content_of(between)}
                between = []
            yield _result(block)
        else:
            between.extend(_pieces([block]))
    if between or not blocks:
        yield {"role": role, "content": content_of(between)}


def _result(block: dict[str, Any]) -> dict[str, Any]:
    content = content_of(_pieces(block.get("content")))
    result = {"role": "tool", "tool_call_id": written_out(block.get("tool_use_id")), "content": content}
    return result | {"name": "error"} if block.get("is_error") else result


def _system(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of the system text as messages, so that prompts which share some of them are seen to."""
    texts = [piece.text for piece in _pieces(request.get("system")) if isinstance(piece, Text) and piece.text]
    rest = {name: request[name] for name in _MESSAGES_FIELDS if request.get(name) not in (None, {}, [])}
    if isinstance(choice := request.get("tool_choice"), dict) and choice != {"type": "auto"}:
        rest["tool_choice"] = choice
    messages: list[dict[str, Any]] = [{"role": "system", "content": text} for text in texts]
    return [*messages, {"role": "system", "content": written_out(rest), "name": REST}] if rest else messages


def _tools(request: dict[str, Any]) -> Part | None:
    tools = request.get("tools")
    tools = [_unmarked(tool) for tool in tools] if isinstance(tools, list) and tools else None
    rest = {name: request[name] for name in _TOOLS_FIELDS if request.get(name) not in (None, {}, [])}
    if isinstance(container := request.get("container"), dict) and container.get("skills"):
        rest["skills"] = container["skills"]
    return tools_part(tools, rest) if tools or rest else None


def _pieces(content: Any) -> list[Piece]:
    """Return the pieces of the content of a message."""
    if isinstance(content, list):
        return [_piece(block) for block in content]
    return [Text(written_out(content))] if content else []


def _piece(block: Any) -> Piece:
    if not isinstance(block, dict):
        return Text(written_out(block))
    match block.get("type"):
        case "text":
            return Text(written_out(block.get("text")))
        case "thinking":
            thinking = written_out(block.get("thinking"))
            return Thinking(thinking) if thinking else Thinking(written_out(block.get("signature")), is_hidden=True)
        case "redacted_thinking":
            return Thinking(written_out(block.get("data")), is_hidden=True)
        case "tool_use":
            call_id, name = written_out(block.get("id")), written_out(block.get("name"))
            return ToolUse(call_id, name, written_out(block.get("input", {})))
        case kind if kind in _MEDIA:
            return Media(_bare(block))
    return Text(written_out(_bare(block)))


def _unmarked(tool: Any) -> Any:
    return {key: value for key, value in tool.items() if key != _CACHE_MARK} if isinstance(tool, dict) else tool


def _bare(block: Any) -> Any:
    """Return a block without cache marks, in the blocks within it neither."""
    if isinstance(block, list):
        return [_bare(item) for item in block]
    if isinstance(block, dict):
        return {key: _bare(value) for key, value in block.items() if key != _CACHE_MARK}
    return block


@dataclass(slots=True)
class Block:
    """A content block as it arrives: as it began, and what came to its fields."""

    start: dict[str, Any] = field(repr=False)
    grown: dict[str, list[str]] = field(default_factory=dict, repr=False)

    def whole(self) -> dict[str, Any]:
        """Return the block as it stands in a message."""
        grown = {key: "".join(pieces) for key, pieces in self.grown.items()}
        arguments = grown.pop("partial_json", "")
        block = self.start | {key: written_out(self.start.get(key)) + text for key, text in grown.items()}
        if not arguments:
            return block
        said = parsed(arguments)
        return block | {"input": arguments if said is None else said}


@dataclass(slots=True)
class Answered(PiecedOutput):
    """The one output of an answer."""

    blocks: list[Block] = field(default_factory=list, repr=False)
    _by_index: dict[int, Block] = field(default_factory=dict, repr=False)

    def pieces(self) -> list[Piece]:
        return _pieces([block.whole() for block in self.blocks])

    def begin(self, index: Any, block: dict[str, Any], at_s: float) -> None:
        """Begin a block; one index may be used again."""
        self._add(index, block)
        if any(block.get(name) for name in ("text", "thinking", "data", "name")):
            self.spoke(at_s)

    def grow(self, index: Any, delta: dict[str, Any], at_s: float) -> None:
        """Append to a block."""
        block = self._by_index.get(index) if isinstance(index, int) else self.blocks[-1] if self.blocks else None
        for key, value in delta.items():
            if key != "type" and isinstance(value, str) and value:
                if block is None:
                    block = self._add(index, {"type": _BLOCK_OF.get(key, "text")})
                block.grown.setdefault(key, []).append(value)
                if key != "signature":
                    self.spoke(at_s)

    def _add(self, index: Any, start: dict[str, Any]) -> Block:
        block = Block(start)
        self.blocks.append(block)
        if isinstance(index, int):
            self._by_index[index] = block
        return block


_BLOCK_OF = {"thinking": "thinking", "signature": "thinking", "partial_json": "tool_use"}


@dataclass(slots=True)
class MessagesAnswer:
    """An answer as it arrives, in pieces or whole."""

    output: Answered = field(default_factory=Answered)
    usage: Usage | None = None
    is_error: bool = False
    is_done: bool = False
    unread: int = 0
    response_id: str = ""
    _counts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def outputs(self) -> Sequence[Answered]:
        return (self.output,)

    def take_event(self, data: bytes, at_s: float) -> bool:
        """Take in an event of a response stream; there is none to withhold."""
        if data == b"[DONE]":
            self.is_done = True
        elif data:
            event = parsed(data)
            if isinstance(event, dict):
                self._take(event, at_s)
            else:
                self.unread += 1
        return False

    def _take(self, event: dict[str, Any], at_s: float) -> None:
        match event.get("type"):
            case "content_block_delta":
                self.output.grow(event.get("index"), inner(event, "delta"), at_s)
            case "content_block_start":
                self.output.begin(event.get("index"), inner(event, "content_block"), at_s)
            case "message_start":
                usage = inner(inner(event, "message"), "usage")
                self._count({name: usage.get(name) for name in _PROMPT_COUNTS})
            case "message_delta":
                self._stop(inner(event, "delta"))
                self._count(inner(event, "usage"))
            case "message_stop":
                self.is_done = True
            case kind if kind == "error" or event.get("error"):
                self.is_error = True

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take in an answer that came in one piece."""
        answer = parsed(body)
        if not isinstance(answer, dict):
            self.unread += 1
            return
        content = answer.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                self.output.begin(None, block, at_s)
        self._stop(answer)
        self._count(inner(answer, "usage"))
        self.is_error = answer.get("type") == "error" or bool(answer.get("error"))
        self.is_done = not self.is_error

    def _stop(self, said: dict[str, Any]) -> None:
        if reason := said.get("stop_reason"):
            self.output.finish_reason = _FINISH_REASONS.get(str(reason), "unknown")

    def _count(self, told: dict[str, Any]) -> None:
        """Take in counts: the prompt's are told at the start, or again at the end, by some servers only there."""
        if not any(told.get(name) for name in _PROMPT_COUNTS):
            told = {name: count for name, count in told.items() if name not in _PROMPT_COUNTS}
        self._counts |= {name: count for name, count in told.items() if count is not None}
        if self._counts:
            self.usage = messages_usage(self._counts)


def _matches(path: str) -> bool:
    """Return whether a path is Anthropic's own, or that of its models at Vertex."""
    if path.endswith(PATH):
        return "/threads/" not in path
    return "/publishers/anthropic/" in path and path.endswith(_VERTEX) and "/count-tokens:" not in path


DIALECT = Dialect(
    "messages",
    matches=_matches,
    read=parse_request,
    answer=lambda _: MessagesAnswer(),
    growing="messages",
    unmarked=unmarked,
    messages=chat_messages,
)
