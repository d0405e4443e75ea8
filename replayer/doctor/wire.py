"""Requests whose answers are looked at as they are: nothing is raised, everything is bounded in time and size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp
import orjson
from yarl import URL

from rotoscope.replayer.connection import without_key
from rotoscope.replayer.failures import Failure, FailureKind, failure_of_client_error, failure_of_status
from rotoscope.replayer.stream import EndlessEvent, EventReader, payloads

Json: TypeAlias = dict[str, Any]

_LARGEST_ANSWER_BYTES = 4 * 1024 * 1024
_MOST_SILENCES = 2
"""After so many requests without an answer no more are sent."""
_MOST_WORDS = 160
"""Characters of a server's message in a table."""
_DONE = b"[DONE]"


@dataclass(slots=True)
class Reply:
    """What came back of one request."""

    status: int | None = None
    """None where nothing was answered."""
    failure: Failure | None = None
    message: str = ""
    """What the server said about its failure, one short line, for the terminal."""
    json: Json = field(default_factory=dict)
    """The body, if it is a JSON object; of a response stream nothing."""
    content_type: str = ""
    events: list[Json] = field(default_factory=list)
    """Of a response stream, those that are JSON objects."""
    strays: int = 0
    """Events of a response stream that are neither JSON objects nor the last one."""
    is_done: bool = False
    """Whether [DONE] came."""

    @property
    def is_ok(self) -> bool:
        return self.failure is None

    @property
    def why(self) -> str:
        """Return why it failed, in words: kind of failure, and the beginning of the server's own."""
        if self.failure is None:
            return ""
        message = "an HTML page" if self.message.startswith("<") else self.message
        shown = message if len(message) <= _MOST_WORDS else f"{message[:_MOST_WORDS]} ..."
        return f"{self.failure.kind.value}{': ' if shown else ''}{shown}"


class Wire:
    """Sends one request after another to one server."""

    def __init__(self, http: aiohttp.ClientSession, api: URL, *, timeout_s: float) -> None:
        """`api` is the URL of the API, up to and with `/v1`; `timeout_s` bounds each request as a whole."""
        self.http = http
        self.api = api
        self.timeout_s = timeout_s
        self._silences = 0

    def of_root(self, path: str) -> URL:
        """Return the URL of a path beside `/v1`."""
        root = self.api.parent
        return root.with_path(root.path.rstrip("/") + path)

    async def get(self, url: URL) -> Reply:
        """Get a JSON object."""
        return await self._ask("GET", url, None)

    async def post(self, url: URL, body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Reply:
        """Post a JSON object and read the answer, which may be a response stream."""
        return await self._ask("POST", url, body, headers)

    async def accepts(self, url: URL, body: Mapping[str, object]) -> Reply:
        """Post a request and hang up when its answer begins: all that matters is its status."""
        return await self._ask("POST", url, body, only_head=True)

    async def _ask(
        self,
        method: str,
        url: URL,
        body: Mapping[str, object] | None,
        headers: Mapping[str, str] | None = None,
        *,
        only_head: bool = False,
    ) -> Reply:
        reply = Reply()
        if self._silences >= _MOST_SILENCES:
            return _failed(reply, Failure(FailureKind.NO_ANSWER), "no longer tried")
        data = None if body is None else orjson.dumps(body)
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                self.http.request(method, url, data=data, headers=all_headers, allow_redirects=False) as response,
            ):
                reply.status, reply.content_type = response.status, response.content_type
                if not (only_head and response.status == 200):
                    await self._read(response, reply)
        except TimeoutError:
            self._silences += 1
            kind = FailureKind.NO_ANSWER if reply.status is None else FailureKind.SILENT_STREAM
            return _failed(reply, Failure(kind))
        except (aiohttp.ClientError, OSError) as error:
            return _failed(reply, failure_of_client_error(error, answered=reply.status is not None))
        return reply

    async def _read(self, response: aiohttp.ClientResponse, reply: Reply) -> None:
        if response.status != 200:
            body = without_key(await _whole(response.content), self.http)
            reply.failure, reply.message = failure_of_status(response.status, body)
            reply.json = _object(body) or {}
        elif response.content_type == "text/event-stream":
            await _read_events(response.content, reply)
        else:
            answer = _object(await _whole(response.content))
            if answer is None:
                _failed(reply, Failure(FailureKind.MALFORMED, 200), f"{response.content_type} instead of a JSON object")
            reply.json = answer or {}


async def _read_events(content: aiohttp.StreamReader, reply: Reply) -> None:
    try:
        async for payload in _payloads(content):
            if payload == _DONE:
                reply.is_done = True
            elif (event := _object(payload)) is None:
                reply.strays += 1
            else:
                reply.events.append(event)
    except EndlessEvent:
        _failed(reply, Failure(FailureKind.MALFORMED, 200), "an event does not end")


async def _payloads(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    events, size = EventReader(), 0
    while (data := await content.readany()) and size < _LARGEST_ANSWER_BYTES:
        size += len(data)
        for payload in events.feed(data):
            yield payload
    for payload in payloads(events.rest()):
        yield payload


async def _whole(content: aiohttp.StreamReader) -> bytes:
    body = b""
    while len(body) < _LARGEST_ANSWER_BYTES and (data := await content.readany()):
        body += data
    return body


def _object(body: bytes) -> Json | None:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _failed(reply: Reply, failure: Failure, message: str = "") -> Reply:
    reply.failure, reply.message = failure, message
    return reply
