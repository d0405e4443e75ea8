"""Each dialect that is recorded, as a client asks in it and a server answers in it: short, plain, and with usage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rotoscope.recorder.dialects.registry import DIALECTS

DONE = b"data: [DONE]\n\n"
SYSTEM = "You are a careful agent. " * 40

Turn = tuple[Literal["user", "assistant"], str]


@dataclass(frozen=True)
class Question:
    """What a request holds."""

    system: str
    turns: Sequence[Turn]
    is_stream: bool
    asks_usage: bool
    previous: str = ""
    """The response that it goes on from, in which case the turns are new ones."""


@dataclass(frozen=True)
class Said:
    """What an answer holds."""

    pieces: Sequence[str]
    prompt_tokens: int
    completion_tokens: int
    name: str
    """By which a later request may name it."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Spoken:
    """A dialect as it is spoken on the wire."""

    name: str
    path: str
    body: Callable[[Question], dict[str, Any]]
    whole: Callable[[Said], dict[str, Any]]
    events: Callable[[Said], list[bytes]]
    """Of a response stream with usage; what may be withheld is an event of its own."""
    stream_path: str = ""
    """Where it is another one."""
    can_stream: bool = True

    def path_of(self, *, is_stream: bool) -> str:
        """Return the path of a request."""
        return self.stream_path if is_stream and self.stream_path else self.path


def event(fields: dict[str, Any], name: str = "") -> bytes:
    """Return one event of a response stream."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(fields).encode() + b"\n\n"


def is_usage_alone(data: bytes) -> bool:
    """Return whether an event is nothing but usage that is withheld from those who did not ask for it."""
    return b'"choices": [], "usage"' in data


def _openai_usage(said: Said) -> dict[str, Any]:
    total = said.prompt_tokens + said.completion_tokens
    return {"prompt_tokens": said.prompt_tokens, "completion_tokens": said.completion_tokens, "total_tokens": total}


def _stream_fields(question: Question) -> dict[str, Any]:
    if not question.is_stream:
        return {}
    return {"stream": True} | ({"stream_options": {"include_usage": True}} if question.asks_usage else {})


def _messages(question: Question) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in question.turns]


def _chat_body(question: Question) -> dict[str, Any]:
    messages = [{"role": "system", "content": question.system}, *_messages(question)]
    return {"model": "m", "messages": messages} | _stream_fields(question)


def _chat_events(said: Said) -> list[bytes]:
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}, *({"content": x} for x in said.pieces)]
    events = [event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    events.append(event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    return [*events, event({"choices": [], "usage": _openai_usage(said)}), DONE]


def _completions_events(said: Said) -> list[bytes]:
    events = [event({"choices": [{"index": 0, "text": x, "finish_reason": None}]}) for x in said.pieces]
    events.append(event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}))
    return [*events, event({"choices": [], "usage": _openai_usage(said)}), DONE]


def _messages_usage(said: Said) -> dict[str, int]:
    return {"input_tokens": said.prompt_tokens - 1, "cache_read_input_tokens": 1, "output_tokens": 1}


def _messages_events(said: Said) -> list[bytes]:
    start = {"type": "message", "role": "assistant", "content": [], "usage": _messages_usage(said)}
    deltas = [{"type": "text_delta", "text": piece} for piece in said.pieces]
    fields: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": said.completion_tokens},
        },
        {"type": "message_stop"},
    ]
    return [event(x, x["type"]) for x in fields]


def _responses_body(question: Question) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": "m", "instructions": question.system, "input": _messages(question)}
    return (
        fields
        | {"stream": question.is_stream}
        | ({"previous_response_id": question.previous} if question.previous else {})
    )


def _response(said: Said) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said.text, "annotations": []}]
    item = {"type": "message", "role": "assistant", "status": "completed", "content": content}
    usage = {
        "input_tokens": said.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said.completion_tokens,
    }
    return {"id": said.name, "status": "completed", "error": None, "output": [item], "usage": usage}


def _responses_events(said: Said) -> list[bytes]:
    begun: dict[str, Any] = {"id": said.name, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    item = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
    deltas = [{"type": "response.output_text.delta", "delta": piece, **place} for piece in said.pieces]
    fields: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *deltas,
        {"type": "response.completed", "response": _response(said)},
    ]
    return [event(x, x["type"]) for x in fields]


def _gemini_body(question: Question) -> dict[str, Any]:
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[role], "parts": [{"text": text}]} for role, text in question.turns]
    return {"systemInstruction": {"parts": [{"text": question.system}]}, "contents": contents}


def _gemini(said: Said, text: str, tokens: int, **fields: str) -> dict[str, Any]:
    usage = {"promptTokenCount": said.prompt_tokens, "candidatesTokenCount": tokens}
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0} | fields
    return {"candidates": [candidate], "usageMetadata": usage}


def _gemini_events(said: Said) -> list[bytes]:
    *pieces, last = said.pieces
    events = [event(_gemini(said, piece, 1)) for piece in pieces]
    return [*events, event(_gemini(said, last, said.completion_tokens, finishReason="STOP"))]


def _whole_chat(said: Said) -> dict[str, Any]:
    message = {"role": "assistant", "content": said.text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": _openai_usage(said)}


def _text(question: Question) -> str:
    return question.system + "".join(text for _, text in question.turns)


SPOKEN: dict[str, Spoken] = {
    spoken.name: spoken
    for spoken in (
        Spoken("chat", "/v1/chat/completions", _chat_body, _whole_chat, _chat_events),
        Spoken(
            "messages",
            "/v1/messages",
            lambda question: {
                "model": "m",
                "max_tokens": 999,
                "system": question.system,
                "messages": _messages(question),
                "stream": question.is_stream,
            },
            lambda said: {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": said.text}],
                "stop_reason": "end_turn",
                "usage": _messages_usage(said) | {"output_tokens": said.completion_tokens},
            },
            _messages_events,
        ),
        Spoken("responses", "/v1/responses", _responses_body, _response, _responses_events),
        Spoken(
            "gemini",
            "/v1beta/models/m:generateContent",
            _gemini_body,
            lambda said: _gemini(said, said.text, said.completion_tokens, finishReason="STOP"),
            _gemini_events,
            stream_path="/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        Spoken(
            "completions",
            "/v1/completions",
            lambda question: {"model": "m", "prompt": _text(question)} | _stream_fields(question),
            lambda said: {
                "choices": [{"index": 0, "text": said.text, "finish_reason": "stop"}],
                "usage": _openai_usage(said),
            },
            _completions_events,
        ),
        Spoken(
            "embeddings",
            "/v1/embeddings",
            lambda question: {"model": "e", "input": _text(question)},
            lambda said: {
                "data": [{"index": 0, "embedding": [0.5] * 64}],
                "usage": {"prompt_tokens": said.completion_tokens},
            },
            lambda said: [],
            can_stream=False,
        ),
    )
}
"""All of them, and embeddings, which are no calls but recorded too."""


def not_spoken() -> set[str]:
    """Return the dialects that are recorded and that nobody here speaks: there should be none."""
    return {str(dialect.name) for dialect in DIALECTS} - set(SPOKEN)
