"""What servers write in each API, for tests: events as objects, and the bytes in which they go over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Payload = dict[str, Any] | str
"""An event as an object, or `[DONE]`."""

PROMPT_TOKENS, CACHED_TOKENS = 40, 16


@dataclass(frozen=True)
class Dialect:
    """One API as a server speaks it. Token number n has the id n and the text `w{n} `."""

    api: str
    starts: tuple[Payload, ...]
    """Before the first token."""
    tokens: Callable[[Sequence[int], int], Payload]
    """An event that brings some tokens, the second value says how many there are with them."""
    finishes: Callable[[int | None], Payload]
    """The event that says why the answer ended, and with how many tokens, if that is in it."""
    ends: Callable[[int | None], tuple[Payload, ...]]
    """Those behind it, with usage unless the number of tokens is None."""
    error: Payload
    """An error of type `some_error`."""
    given_up: Payload | None
    """The event of a request that the server stopped itself."""
    can_end_without_last: bool = True
    """Whether a finish reason says enough."""
    has_ids: bool = False

    def answer(self, count: int) -> list[Payload]:
        """Return a whole answer of so many tokens, one an event."""
        return [*self.starts, *self.single_tokens(range(1, count + 1)), self.finishes(count), *self.ends(count)]

    def single_tokens(self, numbers: Iterable[int]) -> list[Payload]:
        return [self.tokens([number], number) for number in numbers]


def text_of(numbers: Iterable[int]) -> str:
    return "".join(f"w{number} " for number in numbers)


def payload_bytes(payload: Payload, *, compact: bool = True) -> bytes:
    if isinstance(payload, str):
        return payload.encode()
    return json.dumps(payload, separators=(",", ":") if compact else None, ensure_ascii=not compact).encode()


def framed(payload: Payload, *, compact: bool = True, newline: bytes = b"\n") -> bytes:
    """Return an event as it is sent, with its name where the API has names."""
    name = (
        b"event: %b%b" % (payload["type"].encode(), newline) if isinstance(payload, dict) and "type" in payload else b""
    )
    return name + b"data: " + payload_bytes(payload, compact=compact) + 2 * newline


def wire(payloads: Iterable[Payload], **form: Any) -> bytes:
    return b"".join(framed(payload, **form) for payload in payloads)


def _openai_usage(completion_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": completion_tokens,
        "total_tokens": PROMPT_TOKENS + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
    }


def _openai_end(completion_tokens: int | None) -> tuple[Payload, ...]:
    if completion_tokens is None:
        return ("[DONE]",)
    return {"choices": [], "usage": _openai_usage(completion_tokens)}, "[DONE]"


def _choice(**fields: Any) -> Payload:
    return {"id": "x-1", "choices": [{"index": 0, **fields}], "usage": None}


_OPENAI_ERROR = {"error": {"message": "out of blocks", "type": "some_error", "code": 500}}

COMPLETIONS = Dialect(
    api="completions",
    starts=(),
    tokens=lambda numbers, total: _choice(text=text_of(numbers), finish_reason=None, token_ids=list(numbers)),
    finishes=lambda total: _choice(text="", finish_reason="length", token_ids=[]),
    ends=_openai_end,
    error=_OPENAI_ERROR,
    given_up=_choice(text="", finish_reason="abort", token_ids=[]),
    has_ids=True,
)
COMPLETIONS_WITHOUT_IDS = Dialect(
    api="completions",
    starts=(),
    tokens=lambda numbers, total: _choice(text=text_of(numbers), finish_reason=None),
    finishes=lambda total: _choice(text="", finish_reason="length"),
    ends=_openai_end,
    error=_OPENAI_ERROR,
    given_up=_choice(text="", finish_reason="error"),
)
CHAT = Dialect(
    api="chat",
    starts=(_choice(delta={"role": "assistant", "content": ""}, finish_reason=None),),
    tokens=lambda numbers, total: _choice(delta={"content": text_of(numbers)}, logprobs=None, finish_reason=None),
    finishes=lambda total: _choice(delta={}, finish_reason="length"),
    ends=_openai_end,
    error=_OPENAI_ERROR,
    given_up=_choice(delta={}, finish_reason="abort"),
)
LLAMA_CHAT = Dialect(
    api="chat",
    starts=({"choices": [{"finish_reason": None, "index": 0, "delta": {"role": "assistant", "content": None}}]},),
    tokens=lambda numbers, total: {
        "choices": [{"finish_reason": None, "index": 0, "delta": {"content": text_of(numbers)}}]
    },
    finishes=lambda total: {"choices": [{"finish_reason": "length", "index": 0, "delta": {}}]},
    ends=_openai_end,
    error=_OPENAI_ERROR,
    given_up=None,
)


def _response(kind: str, **fields: Any) -> Payload:
    return {"type": f"response.{kind}", **fields}


def _response_end(output_tokens: int | None, kind: str = "incomplete", **fields: Any) -> Payload:
    usage = None
    if output_tokens is not None:
        details = {"cached_tokens": CACHED_TOKENS}
        usage = {"input_tokens": PROMPT_TOKENS, "input_tokens_details": details, "output_tokens": output_tokens}
    return _response(kind, response={"id": "resp_1", "status": kind, "error": None, "usage": usage} | fields)


RESPONSES = Dialect(
    api="responses",
    starts=(
        _response("created", response={"id": "resp_1", "status": "in_progress", "error": None, "usage": None}),
        _response("output_item.added", output_index=0, item={"type": "message", "content": []}),
        _response("content_part.added", part={"type": "output_text", "text": ""}),
    ),
    tokens=lambda numbers, total: _response(
        "output_text.delta",
        content_index=0,
        delta=text_of(numbers),
        item_id="msg_1",
        logprobs=[],
        sequence_number=total,
    ),
    finishes=lambda total: _response("output_text.done", text="all of it"),
    ends=lambda total: (_response("content_part.done"), _response("output_item.done"), _response_end(total)),
    error={"type": "error", "code": "some_error", "message": "out of blocks", "param": None, "sequence_number": 3},
    given_up=_response_end(None, "failed", error={"code": "some_error", "message": "out of blocks"}),
    can_end_without_last=False,
)
LLAMA_RESPONSES = Dialect(
    api="responses",
    starts=(_response("created", response={"id": "resp_1", "object": "response", "status": "in_progress"}),),
    tokens=lambda numbers, total: _response("output_text.delta", item_id="msg_1", delta=text_of(numbers)),
    finishes=lambda total: _response("output_text.done", item_id="msg_1", text="all of it"),
    ends=lambda total: (_response_end(total, "completed"),),
    error=_OPENAI_ERROR,
    given_up=None,
    can_end_without_last=False,
)


def _message_end(total: int | None) -> Payload:
    usage = {} if total is None else {"output_tokens": total}
    return {"type": "message_delta", "delta": {"stop_reason": "max_tokens", "stop_sequence": None}, "usage": usage}


def _message_start(**usage: int | None) -> Payload:
    return {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": usage}}


MESSAGES = Dialect(
    api="messages",
    starts=(
        _message_start(
            input_tokens=4,
            cache_creation_input_tokens=PROMPT_TOKENS - CACHED_TOKENS - 4,
            cache_read_input_tokens=CACHED_TOKENS,
            output_tokens=1,
        ),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
    ),
    tokens=lambda numbers, total: {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text_of(numbers)},
    },
    finishes=_message_end,
    ends=lambda total: ({"type": "message_stop"},),
    error={"type": "error", "error": {"type": "some_error", "message": "out of blocks"}},
    given_up=None,
)
LATE_MESSAGES = Dialect(
    api="messages",
    starts=(_message_start(input_tokens=0, output_tokens=0),),
    tokens=MESSAGES.tokens,
    finishes=lambda total: {
        "type": "message_delta",
        "delta": {"stop_reason": "max_tokens"},
        "usage": {
            "input_tokens": PROMPT_TOKENS - CACHED_TOKENS,
            "cache_read_input_tokens": CACHED_TOKENS,
            "output_tokens": total,
        },
    },
    ends=MESSAGES.ends,
    error=MESSAGES.error,
    given_up=None,
)
"""A gateway that counts the prompt only at the end."""


def _meta(total: int | None, reason: Any = None) -> dict[str, Any]:
    counts = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": total, "cached_tokens": CACHED_TOKENS}
    return {"id": "r", "finish_reason": reason, **({} if total is None else counts)}


_ABORT = {"type": "abort", "message": "out of blocks", "status_code": 500, "err_type": "some_error"}

CUMULATIVE_GENERATE = Dialect(
    api="generate",
    starts=(),
    tokens=lambda numbers, total: {"text": "x", "output_ids": list(range(1, total + 1)), "meta_info": _meta(total)},
    finishes=lambda total: {
        "text": "x",
        "output_ids": list(range(1, (total or 0) + 1)),
        "meta_info": _meta(total, {"type": "length", "length": total}),
    },
    ends=lambda total: ("[DONE]",),
    error={"error": {"message": "out of blocks", "type": "some_error"}},
    given_up={"text": "", "output_ids": [], "meta_info": _meta(None, _ABORT)},
    has_ids=True,
)
INCREMENTAL_GENERATE = Dialect(
    api="generate",
    starts=(),
    tokens=lambda numbers, total: {"text": "x", "output_ids": list(numbers), "meta_info": _meta(total)},
    finishes=lambda total: {
        "text": "",
        "output_ids": [],
        "meta_info": _meta(total, {"type": "length", "length": total}),
    },
    ends=lambda total: ("[DONE]",),
    error=CUMULATIVE_GENERATE.error,
    given_up=CUMULATIVE_GENERATE.given_up,
    has_ids=True,
)

DIALECTS: dict[str, Dialect] = {
    "completions": COMPLETIONS,
    "completions without ids": COMPLETIONS_WITHOUT_IDS,
    "cumulative generate": CUMULATIVE_GENERATE,
    "incremental generate": INCREMENTAL_GENERATE,
    "chat": CHAT,
    "llama-server's chat": LLAMA_CHAT,
    "responses": RESPONSES,
    "llama-server's responses": LLAMA_RESPONSES,
    "messages": MESSAGES,
    "messages counted late": LATE_MESSAGES,
}
