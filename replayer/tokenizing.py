"""Ask a server how it cuts text and messages into tokens; `calibration.py` says what for.

vLLM, SGLang and the simulator take `{"model", "prompt"}` or `{"model", "messages"}` at /tokenize, llama-server
`{"content"}`, and messages only by way of /apply-template.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import aiohttp
import numpy as np
import orjson
from numpy.typing import NDArray
from yarl import URL

Ids: TypeAlias = NDArray[np.int64]
Messages: TypeAlias = Sequence[Mapping[str, str]]
Asked = TypeVar("Asked")

_LARGEST_ANSWER_BYTES = 64 << 20
_LARGEST_ID = 2**32 - 1


class Tokenizer(Protocol):
    """Cuts text into tokens as a server does."""

    async def text(self, text: str) -> Ids | None:
        """Return the ids of a text that stands inside a message; None where that is not to be learnt."""
        ...

    async def prompt(self, messages: Messages) -> Ids | None:
        """Return the ids of a whole prompt with what the template adds; None where that is not to be learnt."""
        ...


class ServerTokenizer:
    """The tokenizer of a server, asked over HTTP."""

    def __init__(self, http: aiohttp.ClientSession, url: URL, *, model: str, timeout_s: float) -> None:
        """`url` is that of the API, up to and with `/v1`; what is asked stands beside it."""
        self._http = http
        self._url = url.parent
        self._model = model
        self._timeout_s = timeout_s
        self._tells: dict[str, bool] = {}
        """Whether texts and prompts were told when they were first asked for; if not, they are not asked for again.

        A server that does not tell texts tells no prompts."""

    async def text(self, text: str) -> Ids | None:
        """Ask for the ids of a text."""
        return await self._told("text", self._ask_for_text, text)

    async def prompt(self, messages: Messages) -> Ids | None:
        """Ask for the ids of messages with the template around them."""
        return await self._told("prompt", self._ask_for_prompt, messages)

    async def _told(self, what: str, ask: Callable[[Asked], Awaitable[Ids | None]], of: Asked) -> Ids | None:
        tells = self._tells.get("text", True) and self._tells.get(what, True)
        ids = await ask(of) if tells else None
        self._tells.setdefault(what, ids is not None)
        return ids

    async def _ask_for_text(self, text: str) -> Ids | None:
        plain = {"prompt": text, "content": text, "add_special_tokens": False, "add_special": False}
        return _ids(await self._post("tokenize", {"model": self._model, **plain}))

    async def _ask_for_prompt(self, messages: Messages) -> Ids | None:
        """Ask in the one way or the other."""
        applied = await self._post("apply-template", {"messages": messages})
        if isinstance(text := applied.get("prompt"), str):
            whole = {"prompt": text, "content": text, "add_special": True, "add_special_tokens": False}
            return _ids(await self._post("tokenize", {**whole, "parse_special": True}))
        asked = {"model": self._model, "messages": messages, "add_generation_prompt": True}
        return _ids(await self._post("tokenize", asked))

    async def _post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Return the JSON object of an answer, an empty one for any other answer."""
        # Dynamo's frontend 1.6.1 closes a connection after a 404 without saying so: it must not be taken again.
        data, headers = orjson.dumps(body), {"Content-Type": "application/json", "Connection": "close"}
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._http.post(
                    self._url / path, data=data, headers=headers, allow_redirects=False
                ) as answer:
                    content = await _whole(answer.content) if answer.status == 200 else b""
            value = orjson.loads(content)
        except (TimeoutError, aiohttp.ClientError, OSError, orjson.JSONDecodeError):
            return {}
        return value if isinstance(value, dict) else {}


def conversation(*contents: str) -> list[dict[str, str]]:
    """Return messages of a user and an assistant in turn."""
    return [
        {"role": "assistant" if number % 2 else "user", "content": content} for number, content in enumerate(contents)
    ]


async def _whole(content: aiohttp.StreamReader) -> bytes:
    """Return a body, or the beginning of one that is larger than any is."""
    body = bytearray()
    while len(body) < _LARGEST_ANSWER_BYTES and (data := await content.readany()):
        body += data
    return bytes(body)


def _ids(answer: Mapping[str, Any]) -> Ids | None:
    """Return the tokens of an answer; None if it holds none."""
    tokens = answer.get("tokens")
    if not isinstance(tokens, list) or not tokens:
        return None
    if not all(type(token) is int and 0 <= token <= _LARGEST_ID for token in tokens):
        return None
    return np.array(tokens, np.int64)
