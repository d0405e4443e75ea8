"""OpenAI responses: items into messages, and the events of an answer into the items that it delivers.

Items of the assistant that stand together are one message, so that an answer is the same part as the items by which it
is sent back. A request may name a response or a conversation that the server keeps, and then holds what is new; its
instructions and tools are its own and stand before all that was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
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
from rotoscope.recorder.usage import Usage, responses_usage
from rotoscope.traces.model import FinishReason

PATH = "/responses"

_TEMPLATE_FIELDS = ("chat_template", "chat_template_kwargs", "reasoning", "text")
"""What a server may tell the model beside instructions, tools and items."""
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal")
_UNSEEN = (
    "code_interpreter_call",
    "compaction",
    "compaction_summary",
    "file_search_call",
    "image_generation_call",
    "item_reference",
    "web_search_call",
)
"""Items that stand for what the server keeps, has sealed or has found."""
_STATE = ("id", "status", "type")
"""What says nothing to the model."""
_PROMPTING = ("input", "instructions", "prompt", "previous_response_id", "conversation")
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def parse_request(path: str, body: bytes) -> Request:
    """Read a request body. Raises NotACall; the message holds nothing of the body."""
    request = parsed_body(body)
    if not any(request.get(name) for name in _PROMPTING):
        raise NotACall("the body has no input")
    sent = request.get("input") or []
    items = chat_messages(sent) if isinstance(sent, list) else [{"role": "user", "content": written_out(sent)}]
    instructions = [{"role": "system", "content": text}] if (text := written_out(request.get("instructions"))) else []
    return Request(
        body=request,
        domain=cache_domain(model_of(path, request), request.get("cache_salt")),
        prompts=(
            Prompt(
                messages=[*instructions, *items],
                tools=_tools(request),
                tools_at=len(instructions),
                unseen=written_out(request.get("prompt") or None),
            ),
        ),
        is_stream=bool(request.get("stream")),
        previous_response=written_out(request.get("previous_response_id") or None),
        conversation=_conversation(request.get("conversation")),
    )


def _conversation(named: Any) -> str:
    return written_out((named.get("id") if isinstance(named, dict) else named) or None)


def _tools(request: dict[str, Any]) -> Part | None:
    tools = request.get("tools") or None
    rest = {name: request[name] for name in _TEMPLATE_FIELDS if request.get(name) not in (None, {}, [])}
    if request.get("tool_choice") == "none" and tools:
        rest["tool_choice"] = "none"
    return tools_part(tools, rest) if tools or rest else None


def chat_messages(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Bring items to the form of chat completions."""
    messages: list[dict[str, Any]] = []
    brought = [(item, _message(item)) for item in items]
    for is_said, group in groupby(brought, lambda pair: pair[1] is None):
        if is_said:
            messages.append(assistant_message([piece for item, _ in group for piece in _pieces(item)]))
        else:
            messages.extend(message or {} for _, message in group)
    return messages


def _message(item: Any) -> dict[str, Any] | None:
    """Return the message that an item is; None for what the assistant said or did."""
    if not isinstance(item, dict):
        return {}
    kind = str(item.get("type") or "message")
    if kind == "message":
        role = str(item.get("role"))
        return None if role == "assistant" else {"role": role, "content": content_of(_content(item.get("content")))}
    if kind.endswith("_output"):
        content = content_of(_content(item.get("output")))
        return {"role": "tool", "tool_call_id": written_out(item.get("call_id")), "content": content}
    if kind == "mcp_approval_response":
        return {"role": "tool", "content": written_out(_stateless(item))}
    return None


def _pieces(item: dict[str, Any]) -> list[Piece]:
    """Return the pieces of an item of the assistant."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return _content(item.get("content"))
    if kind == "reasoning":
        return [_thinking(item)]
    if kind.endswith("_call") and item.get("call_id"):
        return [_tool_use(item, kind)]
    if kind in _UNSEEN:
        return [Media({"type": kind} | (item if kind == "item_reference" else _stateless(item)))]
    return [Text(written_out({"type": kind} | _stateless(item)))]


def _thinking(item: dict[str, Any]) -> Thinking:
    """Return reasoning as the server gets it back: sealed, as text, or by its name alone."""
    if sealed := written_out(item.get("encrypted_content")):
        return Thinking(sealed, is_hidden=True)
    for key in ("content", "summary"):
        texts = [piece.text for piece in _content(item.get(key)) if isinstance(piece, Text)]
        if any(texts):
            return Thinking("\n".join(texts), is_hidden=key == "summary")
    return Thinking(written_out(item.get("id")), is_hidden=True)


def _tool_use(item: dict[str, Any], kind: str) -> ToolUse:
    name = written_out(item.get("name")) or kind.removesuffix("_call")
    if namespace := written_out(item.get("namespace")):
        name = f"{namespace}.{name}"
    for key in ("arguments", "input"):
        if key in item:
            return ToolUse(written_out(item["call_id"]), name, written_out(item[key]))
    rest = {key: value for key, value in _stateless(item).items() if key not in ("call_id", "name", "namespace")}
    return ToolUse(written_out(item["call_id"]), name, written_out(rest))


def _content(content: Any) -> list[Piece]:
    if isinstance(content, list):
        return [_piece(part) for part in content]
    return [_piece(content)] if content else []


def _piece(part: Any) -> Piece:
    if not isinstance(part, dict):
        return Text(written_out(part))
    kind = part.get("type")
    if kind in _TEXTS:
        return Text(written_out(part.get("refusal" if kind == "refusal" else "text")))
    if str(kind).startswith(("input_", "computer_screenshot")):
        return Media(part)
    return Text(written_out(part))


def _stateless(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in _STATE}


@dataclass(slots=True)
class Item:
    """An item as it arrives: as it began, what came to it, and as it is once it is done."""

    start: dict[str, Any] = field(repr=False)
    grown: dict[str, dict[int, list[str]]] = field(default_factory=dict, repr=False)
    """By field and index."""
    done: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        return str(self.start.get("type"))

    @property
    def is_result(self) -> bool:
        """Whether it is what a tool put out."""
        return self.kind.endswith("_output")

    def grow(self, key: str, index: Any, delta: str) -> None:
        """Append to a field, or to one part of it."""
        self.grown.setdefault(key, {}).setdefault(index if isinstance(index, int) else 0, []).append(delta)

    def set(self, key: str, index: Any, text: str) -> None:
        """Put a whole text in the place of what came to a field, or to one part of it."""
        self.grown.setdefault(key, {})[index if isinstance(index, int) else 0] = [text]

    def whole(self) -> dict[str, Any]:
        """Return the item as it stands in a response; one that is done but empty is what came before."""
        if self.done is not None and (not self.grown or _says_something(self.done)):
            return self.done
        item = dict(self.start)
        for key, parts in self.grown.items():
            texts = ["".join(parts[index]) for index in sorted(parts)]
            item[key] = (
                "".join(texts) if key in ("arguments", "input") else [{"type": "text", "text": x} for x in texts]
            )
        return item


def _says_something(item: dict[str, Any]) -> bool:
    return any(
        isinstance(piece, ToolUse | Media) or (isinstance(piece, Text | Thinking) and bool(piece.text))
        for piece in _pieces(item)
    )


@dataclass(slots=True)
class Answered(PiecedOutput):
    """The one output of an answer."""

    items: list[Item] = field(default_factory=list, repr=False)
    _places: dict[int | str, Item] = field(default_factory=dict, repr=False)
    """By index and by id."""

    def pieces(self) -> list[Piece]:
        return [piece for item in self.items if not item.is_result for piece in _pieces(item.whole())]

    def item(self, event: dict[str, Any], kind: str) -> Item:
        """Return the item that an event is about; where that is none that is known, it begins one of some kind."""
        for name in ("output_index", "item_id"):
            place = event.get(name)
            if isinstance(place, int | str) and place in self._places:
                return self._places[place]
        is_placed = isinstance(event.get("output_index"), int) or isinstance(event.get("item_id"), str)
        if not is_placed and self.items and self.items[-1].kind == kind:
            return self.items[-1]
        return self.add(event, {"type": kind, "role": "assistant"} if kind == "message" else {"type": kind})

    def add(self, event: dict[str, Any], start: dict[str, Any]) -> Item:
        """Begin an item."""
        item = Item(start)
        self.items.append(item)
        for place in (event.get("output_index"), event.get("item_id"), start.get("id")):
            if isinstance(place, int | str) and place != "":
                self._places[place] = item
        return item


@dataclass(frozen=True, slots=True)
class _Grows:
    """What a kind of event appends to."""

    item: str
    key: str
    index: str = "content_index"


_GROWING = {
    "response.output_text": _Grows("message", "content"),
    "response.refusal": _Grows("message", "content"),
    "response.reasoning_text": _Grows("reasoning", "content"),
    "response.reasoning": _Grows("reasoning", "content"),
    "response.reasoning_summary_text": _Grows("reasoning", "summary", "summary_index"),
    "response.reasoning_summary": _Grows("reasoning", "summary", "summary_index"),
    "response.function_call_arguments": _Grows("function_call", "arguments"),
    "response.custom_tool_call_input": _Grows("custom_tool_call", "input"),
}
"""Events `....delta` bring a piece, `....done` the whole."""
_WHOLE = ("text", "refusal", "arguments", "input")


@dataclass(slots=True)
class ResponsesAnswer:
    """An answer as it arrives, in pieces or whole."""

    output: Answered = field(default_factory=Answered)
    usage: Usage | None = None
    is_error: bool = False
    is_done: bool = False
    unread: int = 0
    response_id: str = field(default="", repr=False)

    @property
    def outputs(self) -> Sequence[Answered]:
        return (self.output,)

    def take_event(self, data: bytes, at_s: float) -> bool:
        """Take in an event of a response stream; there is none to withhold."""
        if not data or data == b"[DONE]":
            return False
        event = parsed(data)
        if isinstance(event, dict):
            self._take(event, str(event.get("type")), at_s)
        else:
            self.unread += 1
        return False

    def _take(self, event: dict[str, Any], kind: str, at_s: float) -> None:
        name, _, step = kind.rpartition(".")
        if name in _GROWING and step in ("delta", "done"):
            self._grow(event, _GROWING[name], step, at_s)
        elif name == "response.output_item" and step in ("added", "done"):
            self._take_item(event, step, at_s)
        elif kind in _LAST:
            self._finish(inner(event, "response"), kind.removeprefix("response."), at_s)
        elif kind == "error" or (event.get("error") and not kind.startswith("response.")):
            self.is_error = True
        elif step == "delta" and event.get("delta"):
            self.output.spoke(at_s)
        elif isinstance(response_id := inner(event, "response").get("id"), str):
            self.response_id = response_id

    def _grow(self, event: dict[str, Any], grows: _Grows, step: str, at_s: float) -> None:
        index = event.get(grows.index)
        if step == "delta":
            if isinstance(delta := event.get("delta"), str) and delta:
                self.output.item(event, grows.item).grow(grows.key, index, delta)
                self.output.spoke(at_s)
            return
        text = next((event[key] for key in _WHOLE if isinstance(event.get(key), str)), "")
        if text:
            item = self.output.item(event, grows.item)
            if not item.grown:
                self.output.spoke(at_s)
            item.set(grows.key, index, text)

    def _take_item(self, event: dict[str, Any], step: str, at_s: float) -> None:
        start = inner(event, "item")
        if step == "added":
            self.output.add(event, start)
            if start.get("name"):
                self.output.spoke(at_s)
            return
        item = self.output.item(event | {"item_id": start.get("id")}, str(start.get("type")))
        item.done = start
        if not item.grown and not item.start.get("name"):
            self.output.spoke(at_s)

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take in an answer that came in one piece."""
        answer = parsed(body)
        if isinstance(answer, dict):
            self._finish(answer, str(answer.get("status")), at_s)
        else:
            self.unread += 1

    def _finish(self, response: dict[str, Any], status: str, at_s: float) -> None:
        """Take in a whole response; what stands in the background is answered later, and unseen."""
        self.is_error = self.is_error or bool(response.get("error")) or status == "failed"
        self.is_done = not self.is_error or bool(response.get("status"))
        if status in ("queued", "in_progress"):
            return
        if isinstance(response_id := response.get("id"), str):
            self.response_id = response_id
        if not self.output.items:
            self._take_items(response.get("output"), at_s)
        if isinstance(usage := response.get("usage"), dict):
            self.usage = responses_usage(usage)
        self.output.finish_reason = self._finish_reason(response, status)

    def _take_items(self, items: Any, at_s: float) -> None:
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                self.output.add({}, item).done = item
                self.output.spoke(at_s)

    def _finish_reason(self, response: dict[str, Any], status: str) -> FinishReason:
        if status == "incomplete":
            return _INCOMPLETE.get(str(inner(response, "incomplete_details").get("reason")), "unknown")
        if status == "completed":
            return "tool_calls" if self.output.tool_names else "stop"
        return "cancelled" if status == "cancelled" else "unknown"


DIALECT = Dialect(
    "responses",
    matches=lambda path: path.endswith(PATH),
    read=parse_request,
    answer=lambda _: ResponsesAnswer(),
    growing="input",
    messages=chat_messages,
)
