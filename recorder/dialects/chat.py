"""OpenAI chat completions: requests into parts, response streams and single answers into what was delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.recorder.canonical import Part, answer_part, reasoning_of, tools_part
from rotoscope.recorder.usage import Usage, chat_usage
from rotoscope.traces.model import FinishReason

PATH = "/chat/completions"

MOST_CHOICES = 128
_TEMPLATE_FIELDS = (
    "chat_template",
    "chat_template_kwargs",
    "documents",
    "enable_thinking",
    "functions",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "thinking",
)
"""What a template may read beside messages and tools."""
_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request in parts; it holds its text and lives until the digests are taken."""

    domain: bytes = field(repr=False)
    """What keeps caches apart: model and salt."""
    body: dict[str, Any] = field(repr=False)
    messages: list[dict[str, Any]] = field(repr=False)
    tools: Part | None = field(repr=False)
    choices: int
    is_stream: bool
    asks_for_usage: bool
    has_stream_options: bool


class NotAChat(ValueError):
    """The body is no chat request."""


def parse_request(body: bytes) -> ChatRequest:
    """Read a request body. Raises NotAChat; the message holds nothing of the body."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NotAChat("the body is not JSON") from None
    if not isinstance(request, dict) or not isinstance(messages := request.get("messages"), list) or not messages:
        raise NotAChat("the body has no messages")
    options = request.get("stream_options")
    choices = request.get("n")
    return ChatRequest(
        domain=orjson.dumps([request.get("model"), request.get("cache_salt")]),
        body=request,
        messages=only_messages(messages),
        tools=_tools(request),
        choices=min(choices, MOST_CHOICES) if isinstance(choices, int) and choices > 1 else 1,
        is_stream=bool(request.get("stream")),
        asks_for_usage=isinstance(options, dict) and bool(options.get("include_usage")),
        has_stream_options="stream_options" in request,
    )


def only_messages(messages: list[Any]) -> list[dict[str, Any]]:
    """Return messages with an empty one in the place of what is none."""
    return [message if isinstance(message, dict) else {} for message in messages]


def with_usage(body: bytes, *, has_stream_options: bool) -> bytes:
    """Return the body of a stream that asks for usage; but for that it stays the client's own, byte for byte."""
    if not has_stream_options:
        end = body.rindex(b"}")
        return b"".join((memoryview(body)[:end], b',"stream_options":{"include_usage":true}', memoryview(body)[end:]))
    request: dict[str, Any] = orjson.loads(body)
    options = request.get("stream_options")
    request["stream_options"] = (options if isinstance(options, dict) else {}) | {"include_usage": True}
    return orjson.dumps(request)


def leading_messages(messages: list[dict[str, Any]]) -> int:
    """Return how many messages at the start are the system's."""
    for index, message in enumerate(messages):
        if message.get("role") not in ("system", "developer"):
            return index
    return len(messages)


def _tools(request: dict[str, Any]) -> Part | None:
    tools = request.get("tools") or None
    rest = {name: request[name] for name in _TEMPLATE_FIELDS if request.get(name) not in (None, {}, [])}
    if request.get("tool_choice") == "none" and tools:
        rest["tool_choice"] = "none"
    return tools_part(tools, rest) if tools or rest else None


@dataclass(slots=True)
class Choice:
    """One output as it arrives; its text lives until the call is closed."""

    content: list[str] = field(default_factory=list, repr=False)
    reasoning: list[str] = field(default_factory=list, repr=False)
    calls: list[list[str]] = field(default_factory=list, repr=False)
    """[id, name, arguments] each."""
    finish_reason: FinishReason = "unknown"
    chunks: int = 0
    first_at_s: float | None = None
    _by_index: dict[int, int] = field(default_factory=dict, repr=False)

    def add(self, delta: dict[str, Any], at_s: float) -> None:
        """Take in a delta of a stream, or a whole message."""
        said = False
        content = delta.get("content")
        if content and isinstance(content, str):
            self.content.append(content)
            said = True
        elif isinstance(content, list):
            texts = [piece.get("text") for piece in content if isinstance(piece, dict)]
            self.content.extend(text for text in texts if isinstance(text, str))
            said = bool(texts)
        if reasoning := reasoning_of(delta):
            self.reasoning.append(reasoning)
            said = True
        if calls := delta.get("tool_calls"):
            for call in calls:
                if isinstance(call, dict):
                    self._add_call(call)
            said = True
        if isinstance(legacy := delta.get("function_call"), dict):
            self._add_call({"index": 0, "function": legacy})
            said = True
        if said:
            self.chunks += 1
            if self.first_at_s is None:
                self.first_at_s = at_s

    def _add_call(self, delta: dict[str, Any]) -> None:
        """Append to the tool call that a delta belongs to; some servers repeat one index for all of an answer's calls."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = str(delta.get("id") or ""), str(function.get("name") or "")
        index = self._index(delta.get("index"), call_id, is_start=bool(call_id or name))
        known = self._by_index.get(index)
        if known is None or (call_id and self.calls[known][0] not in ("", call_id)):
            known = self._by_index[index] = len(self.calls)
            self.calls.append(["", "", ""])
        call = self.calls[known]
        call[0] = call[0] or call_id
        call[1] = call[1] or name
        arguments = function.get("arguments")
        call[2] += arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode() if arguments else ""

    def _index(self, index: Any, call_id: str, *, is_start: bool) -> int:
        """Return the index of a piece of a tool call; where a server leaves it out, another id or name begins another."""
        if isinstance(index, int):
            return index
        for known, position in self._by_index.items():
            if call_id and self.calls[position][0] == call_id:
                return known
        last = max(self._by_index, default=-1)
        return last + 1 if is_start or last < 0 else last

    def sent_back(self) -> Part:
        """Return the output as the part it is when it is sent back whole."""
        calls = [(call_id, name, arguments) for call_id, name, arguments in self.calls]
        return answer_part("".join(self.content), calls, "".join(self.reasoning))

    def alike_bytes(self) -> int:
        """Return how many bytes of the thinking and of what follows it are alike at their start."""
        if not self.reasoning:
            return 0
        behind = "".join(self.content) or "".join("".join(call[1:]) for call in self.calls)
        thinking, behind = (" ".join(text.split()) for text in ("".join(self.reasoning), behind))
        alike = next((i for i, (a, b) in enumerate(zip(thinking, behind, strict=False)) if a != b), len(thinking))
        return len(behind[:alike].encode())

    @property
    def tool_names(self) -> list[str]:
        return [name for _, name, _ in self.calls]


@dataclass(slots=True)
class ChatAnswer:
    """An answer as it arrives, in pieces or whole."""

    choices: list[Choice]
    usage: Usage | None = None
    is_error: bool = False
    is_done: bool = False
    unread: int = 0
    """Events that were no JSON objects."""

    def take_event(self, data: bytes, at_s: float) -> bool:
        """Take in an event of a response stream; return whether it is nothing but the usage."""
        if not data:
            return False
        if data == b"[DONE]":
            self.is_done = True
            return False
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            self.unread += 1
            return False
        choices = event.get("choices")
        if choices and isinstance(choices, list):
            for choice in choices:
                self._take_choice(choice, "delta", at_s)
        usage = event.get("usage")
        is_error = event.get("error") is not None
        self.is_error = self.is_error or is_error
        if isinstance(usage, dict):
            self.usage = chat_usage(usage).or_else(self.usage)
            return choices == [] and not is_error
        return False

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take in an answer that came in one piece."""
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            self.unread += 1
            return
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            self._take_choice(choice, "message", at_s)
        if isinstance(usage := answer.get("usage"), dict):
            self.usage = chat_usage(usage)
        self.is_error = bool(answer.get("error"))
        self.is_done = not self.is_error

    def _take_choice(self, choice: Any, key: str, at_s: float) -> None:
        if not isinstance(choice, dict):
            return
        index = choice.get("index", 0)
        if not isinstance(index, int) or not 0 <= index < len(self.choices):
            return
        output = self.choices[index]
        if isinstance(message := choice.get(key), dict):
            output.add(message, at_s)
        if reason := choice.get("finish_reason"):
            output.finish_reason = _FINISH_REASONS.get(str(reason), "unknown")
