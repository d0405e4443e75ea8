"""Which other endpoints are there: APIs for prompts made of messages, the tokenizer, and how long a context may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rotoscope.replayer.backends.engines import ANTHROPIC_VERSION, Engine
from rotoscope.replayer.doctor.asking import Asker
from rotoscope.replayer.doctor.checks import Check, Known, none, ok, warn
from rotoscope.replayer.doctor.wire import Json, Reply, Wire
from rotoscope.replayer.failures import FailureKind

_WORDS = "Say a word."
_TOKENS = 16
"""The fewest that OpenAI's responses take."""
_ABSENT = (404, 405, 501)
_NUMBER = re.compile(r"(?:context|max_model_len|max_seq_len)[^0-9]{0,60}([0-9]{3,9})", re.IGNORECASE)
_TOO_MANY_TOKENS = 100_000_000
_LONGEST_TRIED_TOKENS = 40_960
"""A server that refuses a prompt computes nothing, but one that does not might."""


@dataclass(frozen=True, slots=True)
class _Api:
    """A request of one output token or few, without a stream."""

    name: str
    """For `--api`."""
    path: str
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


def _apis(engine: Engine) -> Iterator[_Api]:
    message = {"role": "user", "content": _WORDS}
    yield _Api("chat", "chat/completions", {"messages": [message], engine.chat_length: _TOKENS})
    yield _Api("responses", "responses", {"input": _WORDS, "max_output_tokens": _TOKENS, "store": False})
    yield _Api("messages", "messages", {"messages": [message], "max_tokens": _TOKENS}, ANTHROPIC_VERSION)


async def check_apis(wire: Wire, known: Known) -> list[Check]:
    """Send one small request to each API that takes messages."""
    return [await _check_api(wire, api, known) for api in _apis(known.server.engine)]


async def _check_api(wire: Wire, api: _Api, known: Known) -> Check:
    reply = await wire.post(wire.api / api.path, {"model": known.server.model, **api.body}, api.headers)
    if reply.is_ok:
        known.apis.append(api.name)
        tokens = _prompt_tokens(reply.json)
        return ok(
            api.name, f"/v1/{api.path} answers, {f'usage counts {tokens} prompt tokens' if tokens else 'no usage'}"
        )
    if reply.status in _ABSENT:
        return none(api.name, f"no /v1/{api.path}")
    return none(api.name, f"/v1/{api.path}: {reply.why}")


def _prompt_tokens(answer: Json) -> int | None:
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    names = ("prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(tokens for name in names if type(tokens := usage.get(name)) is int)


async def check_tokenizer(wire: Wire, known: Known) -> Check:
    """Have a text tokenized."""
    ids = await tokenize(wire, known.server.model, _WORDS)
    if ids:
        return ok("tokenizer", f"/tokenize makes {len(ids)} tokens of {len(_WORDS)} characters")
    return none("tokenizer", "no /tokenize", "with --api chat, lengths of prompts may need a tokenizer file")


async def tokenize(wire: Wire, model: str, text: str) -> list[int] | None:
    """Return the ids of a text by the server's own tokenizer; None where it offers none."""
    body = {
        "model": model,
        "prompt": text,  # vLLM, SGLang, TensorRT-LLM
        "add_special_tokens": False,
        "content": text,  # llama.cpp
        "add_special": False,
        "parse_special": True,
    }
    for url in (wire.of_root("/tokenize"), wire.api / "tokenize"):
        reply = await wire.post(url, body)
        tokens = reply.json.get("tokens")
        if reply.is_ok and isinstance(tokens, list):
            return [token for token in tokens if type(token) is int]
        if reply.failure is not None and reply.failure.kind is FailureKind.NO_ANSWER:
            return None
    return None


async def check_context(asker: Asker, known: Known) -> Check:
    """Learn how many tokens a request may have: what the server says, and whether it refuses more."""
    claimed, source = await _claimed_context(asker.wire, known)
    known.context_tokens = claimed
    if claimed is None:
        known.context_tokens = await _refused_context(asker)
        if known.context_tokens is None:
            return warn("context", "not told", "calls that are too long fail during the replay")
        return ok("context", f"{known.context_tokens:,} tokens, by its refusal of more")
    seen = f"{claimed:,} tokens, by {source}"
    if claimed > _LONGEST_TRIED_TOKENS:
        return ok("context", seen)
    reply = await _accepts(asker, prompt_tokens=claimed + 1, max_tokens=1)
    if reply.status == 200:
        return warn("context", f"{seen}, but a longer prompt is accepted", "prompts may be cut without a word")
    return ok("context", f"{seen}; a longer prompt is refused")


async def _accepts(asker: Asker, *, prompt_tokens: int, max_tokens: int) -> Reply:
    body = {"model": asker.model, "prompt": asker.fresh(prompt_tokens), "max_tokens": max_tokens, "stream": True}
    return await asker.wire.accepts(asker.wire.api / "completions", body)


async def _refused_context(asker: Asker) -> int | None:
    """Ask for far too many output tokens: a server that refuses them may name its limit."""
    reply = await _accepts(asker, prompt_tokens=8, max_tokens=_TOO_MANY_TOKENS)
    return _number_in(reply.json, reply.message) if reply.status in (400, 413, 422) else None


async def _claimed_context(wire: Wire, known: Known) -> tuple[int | None, str]:
    if known.context_tokens is not None:
        return known.context_tokens, "/v1/models"
    props = await wire.get(wire.of_root("/props"))
    settings = props.json.get("default_generation_settings")
    tokens = settings.get("n_ctx") if isinstance(settings, dict) else None
    return (tokens if type(tokens) is int and tokens > 0 else None), "/props"


def _number_in(answer: Json, message: str) -> int | None:
    """Return the limit that a refusal names: llama.cpp in a field, the others in words."""
    error: Any = answer.get("error")
    if isinstance(error, dict) and type(error.get("n_ctx")) is int:
        return int(error["n_ctx"])
    found = _NUMBER.search(message)
    return int(found[1]) if found and int(found[1]) < _TOO_MANY_TOKENS else None
