"""Exact mode: ask the upstream itself for the token ids of each recorded prompt, after its answer has been forwarded.

Two forms of server are known. llama-server: `POST /apply-template` renders the messages, `POST /tokenize` gives the ids
of the text. vLLM: `POST /tokenize` takes the messages themselves. Which one it is is found out at the first prompt.
Requests of other dialects are asked about as the chat request that they come to; what is measured counts only where the
server's usage tells the same number of tokens.

The prompt travels to the server a second time; it is held in RAM until its ids have come, and dropped then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp
import orjson

from rotoscope.proxy.upstream import Upstream
from rotoscope.recorder.dialects.chat_form import chat_form
from rotoscope.recorder.exchange import Exchange
from rotoscope.traces.journal import DialectName

QUEUE_LENGTH = 256
"""Prompts that may wait to be measured; further ones stay unmeasured, so that RAM is bounded."""

ANSWER_TIMEOUT_S = 60.0
"""How long the server may take to render or to tokenize one prompt."""

_TOO_LATE = "the server had not tokenized it when the recording ended"
_OF_THE_CLIENT = ("authorization", "api-key", "x-api-key")
"""Header lines that let a request in: the measuring requests go to the same server and need the same."""

_TEMPLATE_FIELDS = frozenset(
    {
        "model",
        "messages",
        "tools",
        "add_generation_prompt",
        "continue_final_message",
        "add_special_tokens",
        "chat_template",
        "chat_template_kwargs",
        "mm_processor_kwargs",
    }
)
"""What of a chat request vLLM's /tokenize takes."""


_HELLO = {"role": "user", "content": "hello"}
"""Asked with to tell one form of server from the other, where the first prompt has no messages."""

Asked: TypeAlias = Mapping[str, Any] | str
"""A chat request, or the text of a prompt without a template."""
Form: TypeAlias = Callable[[Asked, Mapping[str, str]], Awaitable[list[int]]]
"""Gives the ids of a prompt; takes the client's key."""


_CLOSED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientConnectionResetError)
"""What may be said of a connection that the server closed: by what was being written or read then."""


class Unmeasurable(Exception):
    """The server does not answer as the form asked for wants; the text says what it did."""


class NoSuchForm(Unmeasurable):
    """The server does not know the path."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    exchange: Exchange = field(repr=False)
    dialect: DialectName
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    is_done: asyncio.Event = field(default_factory=asyncio.Event, repr=False)


class Measurer:
    """Measure the prompts that are submitted, one after another, in a task of its own."""

    missed = 0
    """Prompts that stayed unmeasured."""

    def __init__(self, upstream: Upstream, session: aiohttp.ClientSession, *, notice: Callable[[str], None]) -> None:
        self._upstream = upstream
        self._session = session
        self._notice = notice
        self._said: set[str] = set()
        self._queue: asyncio.Queue[_Prompt] = asyncio.Queue(QUEUE_LENGTH)
        self._latest: asyncio.Event | None = None
        """Set when all that was submitted so far is measured."""
        self._form: Form | None = None
        self._is_measuring = False

    def submit(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Put the prompt of an ended exchange in line, if there is one to measure; never waits."""
        dialect = exchange.measurable
        if dialect is None:
            return
        kept = {name: headers[name] for name in _OF_THE_CLIENT if name in headers}
        prompt = _Prompt(exchange, dialect, exchange.upstream_body, kept)
        try:
            self._queue.put_nowait(prompt)
            self._latest = prompt.is_done
        except asyncio.QueueFull:
            self._miss(prompt, "the server tokenizes more slowly than the agent calls")

    @property
    def waiting(self) -> int:
        """How many prompts are still to be measured."""
        return self._queue.qsize() + self._is_measuring

    async def run(self) -> None:
        """Measure what is submitted until cancelled."""
        while True:
            prompt = await self._queue.get()
            self._is_measuring = True
            try:
                prompt.exchange.measured(await self._ids(prompt))
            except Unmeasurable as problem:
                self._miss(prompt, str(problem))
            except asyncio.CancelledError:
                self._miss(prompt, _TOO_LATE)
                raise
            except (TimeoutError, aiohttp.ClientError) as error:
                self._miss(prompt, f"asking the server failed ({type(error).__name__})")
            finally:
                self._is_measuring = False
                prompt.is_done.set()
                del prompt

    async def settle(self, *, timeout_s: float) -> None:
        """Wait until what was submitted so far is measured, at most `timeout_s`; what comes later is for nothing."""
        if self._latest is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._latest.wait()
        except TimeoutError:
            self._tell(_TOO_LATE)

    def _miss(self, prompt: _Prompt, reason: str) -> None:
        self.missed += 1
        prompt.exchange.measured(None)
        self._tell(reason)

    def _tell(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            self._notice(f"a prompt could not be measured, its prefix keeps bounds from usage: {reason}")

    async def _ids(self, prompt: _Prompt) -> list[int]:
        asked = chat_form(prompt.dialect, prompt.body)
        if asked is None:
            raise Unmeasurable("its prompt is not all in its request")
        forms = self._forms if self._form is None else [self._form]
        for form in forms:
            try:
                ids = await form(asked, prompt.headers)
            except NoSuchForm:
                continue
            self._form = form
            return ids
        raise Unmeasurable("the server has neither /apply-template nor a /tokenize that takes messages")

    @property
    def _forms(self) -> list[Form]:
        return [self._rendered_ids, self._ids_of_messages]

    async def _rendered_ids(self, asked: Asked, headers: Mapping[str, str]) -> list[int]:
        """Ask as llama-server wants it; the flags are those that its own endpoints use themselves."""
        if not isinstance(asked, str):
            asked = str((await self._post("/apply-template", orjson.dumps(asked), headers)).get("prompt", ""))
        elif self._form is None:
            await self._post("/apply-template", orjson.dumps({"messages": [_HELLO]}), headers)
        content = {"content": asked, "add_special": True, "parse_special": True}
        return _tokens(await self._post("/tokenize", orjson.dumps(content), headers))

    async def _ids_of_messages(self, asked: Asked, headers: Mapping[str, str]) -> list[int]:
        """Ask as vLLM wants it."""
        if isinstance(asked, str):
            wanted: dict[str, Any] = {"prompt": asked}
        else:
            wanted = {"add_generation_prompt": True} | {k: v for k, v in asked.items() if k in _TEMPLATE_FIELDS}
        return _tokens(await self._post("/tokenize", orjson.dumps(wanted), headers))

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Ask; once more where the server closed a kept connection just then, as this changes nothing there."""
        try:
            return await self._posted(path, body, headers)
        except _CLOSED:
            return await self._posted(path, body, headers)

    async def _posted(self, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        async with self._session.post(
            self._upstream.server_url(path),
            data=body,
            headers={**headers, "Content-Type": "application/json", "Accept-Encoding": "identity"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S),
        ) as answer:
            if answer.status in (404, 405, 501):
                raise NoSuchForm(f"{path} answers {answer.status}")
            if answer.status != 200:
                raise Unmeasurable(f"{path} answers {answer.status}")
            try:
                parsed = orjson.loads(await answer.read())
            except orjson.JSONDecodeError:
                raise Unmeasurable(f"{path} answers with something else than JSON") from None
        if not isinstance(parsed, dict):
            raise Unmeasurable(f"{path} answers with something else than an object")
        return parsed


def _tokens(answer: dict[str, Any]) -> list[int]:
    tokens = answer.get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise Unmeasurable("/tokenize answers without token ids")
    return tokens
