"""A server of completions for the doctor's tests: a prefix cache of blocks, and the faults that a test gives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from raw_server import Handler

EOS = 2
_FIRST_ID = 50_000
"""Generated ids begin here, above those of prompts."""


@dataclass
class Patient:
    """Answers /v1/models and /v1/completions; by default nothing is wrong with it."""

    card: dict[str, Any] = field(default_factory=lambda: {"id": "m", "owned_by": "vllm", "max_model_len": 8192})
    context_tokens: int = 8192
    block_size: int = 16
    keeps_outputs: bool = True
    ids_for: str | None = "return_token_ids"
    """The field that makes it return output ids."""
    known_fields: frozenset[str] | None = None
    """Others are refused; None takes any."""
    told_cached: Callable[[int], int | None] = lambda cached: cached
    """What it says of the tokens that it found cached."""
    told_prompt: Callable[[int], int | None] = lambda tokens: tokens
    generated: Callable[[int], int] = lambda tokens: tokens
    """How many tokens it makes of those asked for."""
    ends_early: bool = True
    """Whether pushing EOS ends an answer after one token."""
    obeys: frozenset[str] = frozenset({"ignore_eos", "min_tokens"})
    tokens_an_event: int = 1
    has_usage: bool = True
    ending: bytes = b"data: [DONE]\n\n"
    bodies: list[dict[str, Any]] = field(default_factory=list)
    kept: list[list[int]] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0

    def handlers(self, others: Mapping[str, Handler] | None = None) -> Mapping[str, Handler]:
        """Return its handlers for `raw_server.serving`."""
        return {"/v1/models": self.models, "/v1/completions": self.completions, **(others or {})}

    async def models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [self.card]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.bodies.append(body)
        unknown = set(body) - self.known_fields if self.known_fields is not None else set()
        if unknown:
            return _refusal(f"unknown fields: {', '.join(sorted(unknown))}")
        if len(body["prompt"]) + body["max_tokens"] > self.context_tokens:
            return _refusal(f"This model's maximum context length is {self.context_tokens} tokens")
        return await self._answer(request, body)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer /v1/chat/completions; each word is a token."""
        body = json.loads(await request.read())
        self.bodies.append(body)
        words = [sum(ord(letter) << 8 * at for at, letter in enumerate(word)) for word in _words_of(body)]
        if body.get("stream"):
            return await self._answer(request, body | {"prompt": words})
        return web.json_response({"choices": [], "usage": {"prompt_tokens": len(words)}})

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        prompt, cached = body["prompt"], self._cached(body["prompt"])
        ids = [_FIRST_ID + len(self.bodies) * 1000 + number for number in range(self._length(body))]
        self.kept.append([*prompt, *(ids[:-1] if self.keeps_outputs else [])])
        self.prompt_tokens += len(prompt)
        self.cached_tokens += cached
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for start in range(0, len(ids), self.tokens_an_event):
            await response.write(self._event(ids[start : start + self.tokens_an_event], body))
        if self.has_usage:
            await response.write(self._usage(len(prompt), len(ids), cached))
        await response.write(self.ending)
        await response.write_eof()
        return response

    def _length(self, body: dict[str, Any]) -> int:
        tokens = int(body["max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"])
        pushed = str(EOS) in body.get("logit_bias", {}) and self.ends_early
        held = any(name in self.obeys and body.get(name) for name in ("ignore_eos", "min_tokens"))
        return 1 if pushed and not held else self.generated(tokens)

    def _cached(self, prompt: list[int]) -> int:
        common = max((_common(prompt, stream) for stream in self.kept), default=0)
        return min(common, len(prompt) - 1) // self.block_size * self.block_size

    def _event(self, ids: list[int], body: dict[str, Any]) -> bytes:
        choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        choice |= {"delta": {"content": "x"}} if "messages" in body else {"text": "x"}
        if self.ids_for is not None and self.ids_for in body:
            choice["token_ids"] = ids
        return _data({"choices": [choice]})

    def _usage(self, prompt_tokens: int, tokens: int, cached: int) -> bytes:
        told = self.told_cached(cached)
        details = None if told is None else {"cached_tokens": told}
        usage = {"prompt_tokens": self.told_prompt(prompt_tokens), "completion_tokens": tokens}
        return _data({"choices": [], "usage": usage | {"prompt_tokens_details": details}})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Answer /metrics as vLLM does."""
        queries, hits = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
        return web.Response(text=f"{queries} {self.prompt_tokens}\n{hits} {self.cached_tokens}\n")


async def out_of_order(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "out of order"}}, status=500)


async def html(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>welcome</html>", content_type="text/html")


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def cut(request: web.Request) -> web.StreamResponse:
    """Begin a response stream and close the connection."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(_data({"choices": [{"text": "x", "finish_reason": None}]}))
    assert request.transport is not None
    request.transport.close()
    return response


def _words_of(body: dict[str, Any]) -> list[str]:
    return " ".join(message["content"] for message in body["messages"]).split()


def _refusal(message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "BadRequestError"}}, status=400)


def _data(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _common(one: list[int], other: list[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
