"""OpenAI chat completions: requests into parts, response streams and single answers into what was delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.recorder.canonical import Part, reasoning_of, tools_part
from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.choices import ChoicesAnswer
from rotoscope.recorder.dialects.domain import cache_domain, model_of
from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.dialects.request import NotACall, Prompt, Request
from rotoscope.recorder.dialects.stream_options import usage_asked
from rotoscope.recorder.packing import written

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


def parse_request(path: str, body: bytes) -> Request:
    """Read a request body. Raises NotACall; the message holds nothing of the body."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NotACall("the body is not JSON") from None
    if not isinstance(request, dict) or not isinstance(messages := request.get("messages"), list) or not messages:
        raise NotACall("the body has no messages")
    choices = request.get("n")
    is_stream = bool(request.get("stream"))
    return Request(
        body=request,
        domain=cache_domain(model_of(path, request), request.get("cache_salt")),
        prompts=(Prompt(messages=only_messages(messages), tools=_tools(request)),),
        choices=min(choices, MOST_CHOICES) if isinstance(choices, int) and choices > 1 else 1,
        is_stream=is_stream,
        is_without_usage=is_stream and not usage_asked(request),
        has_stream_options="stream_options" in request,
    )


def only_messages(messages: list[Any]) -> list[dict[str, Any]]:
    """Return messages with an empty one in the place of what is none."""
    return [message if isinstance(message, dict) else {} for message in messages]


def _tools(request: dict[str, Any]) -> Part | None:
    tools = request.get("tools") or None
    rest = {name: request[name] for name in _TEMPLATE_FIELDS if request.get(name) not in (None, {}, [])}
    if request.get("tool_choice") == "none" and tools:
        rest["tool_choice"] = "none"
    return tools_part(tools, rest) if tools or rest else None


@dataclass(slots=True)
class Choice(Output):
    """One choice as it arrives."""

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
        if (calls := delta.get("tool_calls")) and isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    self._add_call(call)
            said = True
        if isinstance(legacy := delta.get("function_call"), dict):
            self._add_call({"index": 0, "function": legacy})
            said = True
        if said:
            self.spoke(at_s)

    def _add_call(self, delta: dict[str, Any]) -> None:
        """Append to the tool call that a delta belongs to; some servers repeat one index for all of an answer's calls."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = str(delta.get("id") or ""), str(function.get("name") or "")
        index = self._index(delta.get("index"), call_id, is_start=bool(call_id or name))
        known = self._by_index.get(index)
        if known is None or (call_id and self.calls[known][0] not in ("", call_id)):
            known = self._by_index[index] = self.begin_call("", "")
        call = self.calls[known]
        call[0] = call[0] or call_id
        call[1] = call[1] or name
        arguments = function.get("arguments")
        call[2] += arguments if isinstance(arguments, str) else written(arguments).decode() if arguments else ""

    def _index(self, index: Any, call_id: str, *, is_start: bool) -> int:
        """Return the index of a piece of a tool call; where a server leaves it out, another id or name begins another."""
        if isinstance(index, int):
            return index
        for known, position in self._by_index.items():
            if call_id and self.calls[position][0] == call_id:
                return known
        last = max(self._by_index, default=-1)
        return last + 1 if is_start or last < 0 else last


class ChatAnswer(ChoicesAnswer[Choice]):
    """An answer of a chat as it arrives."""

    __slots__ = ()

    def add(self, output: Choice, choice: dict[str, Any], at_s: float, *, is_whole: bool) -> None:
        if isinstance(message := choice.get("message" if is_whole else "delta"), dict):
            output.add(message, at_s)


DIALECT = Dialect(
    "chat",
    matches=lambda path: path.endswith(PATH),
    read=parse_request,
    answer=lambda outputs: ChatAnswer([Choice() for _ in range(outputs)]),
    growing="messages",
    messages=only_messages,
)
