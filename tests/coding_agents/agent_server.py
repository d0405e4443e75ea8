"""The scripted server as coding agents need it: any model's name is served, and what is not text is taken as JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import orjson
from aiohttp import web
from clients.scripted_server import Script, ScriptedServer, current_request
from coding_agents.gemini_api import GEMINI_FORM, GeminiBody

from rotoscope.replayer.simulator import wire
from rotoscope.replayer.simulator.api_messages import MESSAGES_FORM, MessagesBody
from rotoscope.replayer.simulator.api_responses import RESPONSES_FORM, ResponsesBody
from rotoscope.replayer.simulator.constants import LLAMA_SERVER_TINY
from rotoscope.replayer.simulator.responses import CHAT_FORM, Choice, Form, Reply
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.tokenizer import encode

TEXT_TYPES = ("text", "input_text", "output_text")
BLOCK_TYPES = (*TEXT_TYPES, "tool_use", "tool_result", "thinking", "redacted_thinking")
CUSTOM = {"custom_tool_call": "function_call", "custom_tool_call_output": "function_call_output"}
ITEM_TYPES = ("message", "function_call", "function_call_output", "reasoning")
NAMESPACE_MARK = "::"
"""Between the namespace of a tool and its name, in the script: agents of OpenAI's have tools within tools."""
NAMESPACE = re.compile(rb'"name":"(\w+)::')
FLOWING_TOKENS = 200
"""An answer of which so many are generated is on its way to its client."""

Json = dict[str, Any]


class AgentServer(ScriptedServer):
    """A scripted server for coding agents; `flowing` is set while it answers the call of that number."""

    timing = replace(LLAMA_SERVER_TINY, prefill_tokens_per_s=1e6, prefill_attention_s=0.0, decode_context_s=0.0)
    """Their prompts are long, and nobody learns anything from waiting for them."""

    def __init__(self, script: Script, *, says_in_errors: str, flowing_call: int | None = None) -> None:
        super().__init__(script, says_in_errors=says_in_errors)
        self.flowing = asyncio.Event()
        self.broken: Mapping[int, int] = {}
        """By the number of a call, how many tokens of its answer are sent before its connection is closed."""
        self._flowing_call = flowing_call

    def application(self) -> web.Application:
        """Return the web application with all routes."""
        app = super().application()
        app.add_routes(
            [
                web.post("/v1beta/models/{call:.+}", self._gemini),
                web.post("/{of:compatible-mode|zen}/v1/chat/completions", self._chat_completions),
            ]
        )
        return app

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(MessagesBody, plain_messages(wire.parse_json(await request.read())))
        prompt = self._chat_prompt(body, body.conversation(), body.chat_tools())
        return await self._desk.serve(request, body, [prompt], self._form(MESSAGES_FORM))

    async def _count_tokens(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(MessagesBody, plain_messages(wire.parse_json(await request.read()) | {"max_tokens": 1}))
        return web.json_response({"input_tokens": len(encode(render(body.conversation(), body.chat_tools())))})

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(ResponsesBody, plain_response(wire.parse_json(await request.read())))
        prompt = self._chat_prompt(body, body.messages(), body.chat_tools())
        return await self._desk.serve(request, body, [prompt], self._form(RESPONSES_FORM))

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(wire.ChatBody, wire.parse_json(await request.read()) | {"model": None})
        prompt = self._chat_prompt(body, wire.messages_of(body), tuple(body.tools or ()))
        return await self._desk.serve(request, body, [prompt], self._form(CHAT_FORM))

    async def _gemini(self, request: web.Request) -> web.StreamResponse:
        is_stream = request.path.endswith(":streamGenerateContent")
        body = wire.parse(GeminiBody, wire.parse_json(await request.read()) | {"stream": is_stream})
        prompt = self._chat_prompt(body, body.conversation(), body.chat_tools())
        return await self._desk.serve(request, body, [prompt], self._form(GEMINI_FORM))

    def _form(self, form: Form) -> Form:
        """Return a form that names namespaces apart, keeps the ids of tool calls, and does what waits for this call."""
        number, seen = sum(seen.is_call for seen in self.seen), current_request()
        limit = self.broken.get(number)

        def chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
            seen.tool_ids = choice.tool_ids
            if number == self._flowing_call and end > FLOWING_TOKENS:
                self.flowing.set()
            if limit is not None and first >= limit:
                break_off()
            end = end if limit is None else min(end, limit)
            return [with_namespace(chunk) for chunk in form.chunks(reply, choice, first, end)]

        def break_off() -> NoReturn:
            if not limit:
                seen.generations = ()
            raise ConnectionAbortedError("the server goes away in the midst of an answer")

        def ending(reply: Reply, *, include_usage: bool) -> bytes:
            if limit is not None:
                break_off()
            return with_namespace(form.ending(reply, include_usage=include_usage))

        return replace(form, chunks=chunks, ending=ending)


def with_namespace(event: bytes) -> bytes:
    """Return an event whose tool `a::b` is the tool b of namespace a."""
    return NAMESPACE.sub(rb'"namespace":"\1","name":"', event)


def plain_messages(body: Json) -> Json:
    """Return the body of /v1/messages with every block that is not known as text."""
    messages = [message | {"content": _blocks(message["content"])} for message in body["messages"]]
    return body | {"messages": messages, "model": None}


def _blocks(content: Any) -> Any:
    if isinstance(content, str):
        return content
    blocks = [block if block["type"] in BLOCK_TYPES else _as_text(block) for block in content]
    return [block | {"content": _texts(block["content"])} if "content" in block else block for block in blocks]


def plain_response(body: Json) -> Json:
    """Return the body of /v1/responses with every item and part that is not known as text, and namespaces in names."""
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    return body | {"input": [_item(item) for item in items], "model": None}


def _item(item: Json) -> Json:
    kind = CUSTOM.get(item.get("type", "message"), item.get("type", "message"))
    if kind not in ITEM_TYPES:
        return {"type": "message", "role": "user", "content": [_as_text(item)]}
    known = item | {"type": kind} | {key: _texts(item[key]) for key in ("content", "output") if key in item}
    if item.get("namespace"):
        known["name"] = f"{item['namespace']}{NAMESPACE_MARK}{item['name']}"
    return known | {"arguments": item.get("arguments", item.get("input", ""))}


def _texts(parts: Any) -> Any:
    if not isinstance(parts, list):
        return parts
    return [part if part.get("type") in TEXT_TYPES else _as_text(part) for part in parts]


def _as_text(part: Json) -> Json:
    return {"type": "text", "text": orjson.dumps(part).decode()}
