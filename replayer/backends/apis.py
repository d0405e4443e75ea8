"""The APIs in which calls can be replayed: what a request says in each, and which grammar its answer has.

Sampling is greedy where the server takes that: the same prompts then give the same outputs, and random weights do not
sample an id that a server would refuse in the next prompt. Both `ignore_eos` and `min_tokens` are sent to engines that
know them, because llama-server ignores the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import orjson

from rotoscope.replayer.backends.answer_chat import reading_chat
from rotoscope.replayer.backends.answer_completions import reading_completions
from rotoscope.replayer.backends.answer_generate import reading_generate
from rotoscope.replayer.backends.answer_messages import reading_messages
from rotoscope.replayer.backends.answer_responses import reading_responses
from rotoscope.replayer.backends.engines import ANTHROPIC_VERSION, Engine
from rotoscope.replayer.backends.grammar import Read
from rotoscope.replayer.exchange import Exchange
from rotoscope.traces.errors import UnusableInput

Fields: TypeAlias = dict[str, object]
BodyOf: TypeAlias = Callable[[Exchange], bytes]

LENGTH = "\0length"
"""Stands in the fields of a request for the number of tokens to generate; no model has such a name."""

_STREAMED_WITH_USAGE: Mapping[str, object] = {"stream": True, "stream_options": {"include_usage": True}}
_MESSAGE = b'{"role":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One way to ask a server for an answer."""

    name: str
    path: str
    """Relative to the URL up to and with `/v1/`."""
    prompts: Literal["ids", "messages"]
    """What prompts are made of."""
    prompt_field: str
    fields: Callable[[str, Engine], Fields]
    """What every request says beside its prompt, from the model's name and the engine; LENGTH stands for the length."""
    reading: Callable[[Engine], Read]
    """Begins the reading of an answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    opens_message: bytes = _MESSAGE
    """How an object of a prompt made of messages begins, up to its role."""

    def body(self, model: str, engine: Engine) -> BodyOf:
        """Return what makes the body of a request out of an exchange."""
        fields = self.fields(model, engine)
        plain = awaited = self._template(fields)
        least = engine.least_response if self.name == "responses" else 1
        if self.name == "chat":
            awaited = self._template(fields | dict(engine.asks_for_running_usage))

        def body(exchange: Exchange) -> bytes:
            template = plain if exchange.on_delivery is None else awaited
            return b"".join((template % {b"length": max(exchange.output_tokens, least)}, self._prompt(exchange), b"}"))

        return body

    def _template(self, fields: Fields) -> bytes:
        """Return a body up to its prompt, with a place for the length."""
        start = orjson.dumps(fields)[:-1] + b',"%b":' % self.prompt_field.encode()
        return start.replace(b"%", b"%%").replace(orjson.dumps(LENGTH), b"%(length)d")

    def _prompt(self, exchange: Exchange) -> bytes:
        if self.opens_message == _MESSAGE:
            return exchange.prompt
        # no text can look like it, because quotes in strings are escaped
        return exchange.prompt.replace(_MESSAGE, self.opens_message)


def api_named(name: str) -> Api:
    """Return an API by its name; raise UnusableInput for another one."""
    if name not in APIS:
        raise UnusableInput(f"no API {name!r}: choose one of auto, {', '.join(APIS)}")
    return APIS[name]


def _length(api: str, name: str, engine: Engine) -> Fields:
    """Return what makes an answer so long, and no shorter where the engine is known to take that."""
    exactly: Fields = {"min_tokens": LENGTH, "ignore_eos": True} if api in engine.pins_lengths else {}
    return {name: LENGTH} | exactly


def _greedy(engine: Engine) -> Fields:
    return {"temperature": 0} if engine.is_greedy else {}


def _completions(model: str, engine: Engine) -> Fields:
    length = _length("completions", "max_tokens", engine)
    return {"model": model, **_STREAMED_WITH_USAGE, **_greedy(engine), **length, **engine.asks_for_ids}


def _chat(model: str, engine: Engine) -> Fields:
    length = _length("chat", engine.chat_length, engine)
    return {"model": model, **_STREAMED_WITH_USAGE, **_greedy(engine), **length}


def _responses(model: str, engine: Engine) -> Fields:
    length = _length("responses", "max_output_tokens", engine)
    return {"model": model, "stream": True, "store": False, **_greedy(engine), **length}


def _messages(model: str, engine: Engine) -> Fields:
    return {"model": model, "stream": True, **_greedy(engine), **_length("messages", "max_tokens", engine)}


def _generate(model: str, engine: Engine) -> Fields:
    length = {"max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "ignore_eos": True}
    return {"stream": True, "sampling_params": {"temperature": 0, **length}}


APIS: dict[str, Api] = {
    api.name: api
    for api in (
        Api(
            name="completions",
            path="completions",
            prompts="ids",
            prompt_field="prompt",
            fields=_completions,
            reading=reading_completions,
        ),
        Api(
            name="generate",
            path="../generate",
            prompts="ids",
            prompt_field="input_ids",
            fields=_generate,
            reading=reading_generate,
        ),
        Api(
            name="chat",
            path="chat/completions",
            prompts="messages",
            prompt_field="messages",
            fields=_chat,
            reading=reading_chat,
        ),
        Api(
            name="responses",
            path="responses",
            prompts="messages",
            prompt_field="input",
            fields=_responses,
            reading=reading_responses,
            opens_message=b'{"type":"message","role":',  # llama-server refuses an answer sent back without the type
        ),
        Api(
            name="messages",
            path="messages",
            prompts="messages",
            prompt_field="messages",
            fields=_messages,
            reading=reading_messages,
            headers=ANTHROPIC_VERSION,
        ),
    )
}
"""By name, which is the value of `--api`."""
