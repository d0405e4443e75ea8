"""Responses on the two sides of a recorder without a wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from chat_wire import Message, Wire

PATH = "/v1/responses"


def asked(text: str) -> Message:
    return {"role": "user", "content": text}


def told(text: str) -> Message:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def called(call_id: str, name: str = "read") -> Message:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def put_out(call_id: str, text: str) -> Message:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


@dataclass
class ResponsesWire(Wire):
    """A recorder that responses pass."""

    def respond(
        self,
        items: list[Message],
        *answer: Message,
        counts: tuple[int, int] | None = None,
        name: str = "",
        **fields: Any,
    ) -> None:
        """Make one call; `name` is the id of its response, `counts` are the tokens of its prompt and of its output."""
        self.now_s += 1
        body = orjson.dumps({"model": "m", "input": items} | fields)
        exchange = self.recorder.request(PATH, body, at_s=self.now_s)
        assert exchange.recorded, self.recorder.trouble
        usage = {"input_tokens": counts[0], "output_tokens": counts[1]} if counts else None
        response = {"id": name, "status": "completed", "output": answer, "usage": usage}
        self.now_s += 1
        exchange.response(200, at_s=self.now_s, content_type="application/json")
        exchange.chunk(orjson.dumps(response), at_s=self.now_s)
        exchange.end(at_s=self.now_s)
