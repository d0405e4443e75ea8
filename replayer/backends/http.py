"""The backend for streamed answers over HTTP; what differs between APIs is in their table.

One POST a call, streamed, never repeated and never redirected. The prompt's bytes are spliced into the body as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from rotoscope.replayer.backends.answer import Answer
from rotoscope.replayer.backends.apis import Api
from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import AnswerFailed
from rotoscope.replayer.clock import Clock
from rotoscope.replayer.connection import without_key
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind, failure_of_client_error, failure_of_status
from rotoscope.replayer.stream import EndlessEvent

Tell: TypeAlias = Callable[[FailureKind, str], None]
"""Takes a server's message, which is shown and not kept."""

_LONGEST_ERROR_BYTES = 64 * 1024
_PATIENCE_AT_THE_END_S = 2.0
"""How long an error body may take, or the end of a response after its last event; the connection is then given up."""
_DEADLINE_SLACK = 0.125
"""Share of the timeout by which it may be late: moving a deadline at every read would cost more than the reading."""


class HttpBackend:
    """Perform calls in one API over one HTTP session."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: URL,
        *,
        api: Api,
        model: str,
        engine: Engine,
        timeout_s: float,
        clock: Clock,
        tell: Tell,
    ) -> None:
        """`url` is that of the API, up to and with `/v1`; `timeout_s` bounds every silence, not the whole answer."""
        self._http = http
        self._url = (url / "").join(URL(api.path))
        self._api = api
        self._engine = engine
        self._timeout_s = timeout_s
        self._clock = clock
        self._tell = tell
        self._body_of = api.body(model, engine)

    async def perform(self, exchange: Exchange) -> Failure | None:
        """Send one request and read its answer into `exchange`; return why it failed, if it did."""
        exchange.sent_s = self._clock.now()
        try:
            async with asyncio.timeout(self._timeout_s * (1 + _DEADLINE_SLACK)) as deadline:
                await self._converse(exchange, deadline)
        except AnswerFailed as failed:
            self._tell(failed.failure.kind, without_key(failed.message.encode(), self._http).decode())
            return failed.failure
        except EndlessEvent:
            return Failure(FailureKind.MALFORMED, 200)
        except TimeoutError as error:
            return _failure_of_timeout(exchange, error)
        except (aiohttp.ClientError, OSError) as error:
            return failure_of_client_error(error, answered=exchange.answered_s is not None)
        finally:
            if exchange.ended_s is None:
                exchange.ended_s = self._clock.now()
        return None

    async def _converse(self, exchange: Exchange, deadline: asyncio.Timeout) -> None:
        body = _Body(self._body_of(exchange))
        post = self._http.post(self._url, data=body, headers=self._api.headers, allow_redirects=False)
        async with post as response:
            if response.status != 200:
                said = without_key(await _error_body(response.content), self._http)
                raise AnswerFailed(*failure_of_status(response.status, said))
            exchange.answered_s = self._clock.now()
            if response.content_type != "text/event-stream":
                raise AnswerFailed(Failure(FailureKind.MALFORMED, 200), "the answer is no event stream")
            await self._read(response.content, exchange, deadline)

    async def _read(self, content: aiohttp.StreamReader, exchange: Exchange, deadline: asyncio.Timeout) -> None:
        answer = Answer(exchange, self._api.reading(self._engine))
        try:
            now = await self._read_events(content, answer, deadline)
        finally:
            answer.keep_what_came()
        if not content.at_eof():
            deadline.reschedule(now + min(self._timeout_s, _PATIENCE_AT_THE_END_S))
            while await content.readany():
                pass

    async def _read_events(self, content: aiohttp.StreamReader, answer: Answer, deadline: asyncio.Timeout) -> float:
        """Read until the answer is whole and return when it was."""
        now = self._clock.now()
        self._renew(deadline, now)
        while not answer.is_whole and (data := await content.readany()):
            now = self._clock.now()
            if answer.take(data, now):
                self._renew(deadline, now)
        if not answer.is_whole:
            answer.finish(now)
        return now

    def _renew(self, deadline: asyncio.Timeout, now: float) -> None:
        """Let the timeout begin anew, if it has run for so long that this is worth its cost."""
        if now > (deadline.when() or now) - self._timeout_s:
            deadline.reschedule(now + self._timeout_s * (1 + _DEADLINE_SLACK))


class _Body(Payload):
    """A JSON body that is in memory anyway; aiohttp's own bytes payload warns above 1 MB, which is 150,000 tokens."""

    _autoclose = True

    def __init__(self, content: bytes) -> None:
        super().__init__(content, content_type="application/json")
        self._size = len(content)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        content: bytes = self._value
        return content.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await writer.write(self._value)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await writer.write(self._value[:content_length])


def _failure_of_timeout(exchange: Exchange, error: TimeoutError) -> Failure | None:
    if exchange.ended_s is not None:
        return None  # the answer is whole, only the response was not ended
    if isinstance(error, aiohttp.ServerTimeoutError):
        return Failure(FailureKind.UNREACHABLE)
    if exchange.answered_s is None:
        return Failure(FailureKind.NO_ANSWER)
    return Failure(FailureKind.SILENT_STREAM, 200)


async def _error_body(content: aiohttp.StreamReader) -> bytes:
    """Read what there is of an error's body, soon."""
    body = b""
    try:
        async with asyncio.timeout(_PATIENCE_AT_THE_END_S):
            while len(body) < _LONGEST_ERROR_BYTES and (data := await content.readany()):
                body += data
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass  # the status says enough
    return body[:_LONGEST_ERROR_BYTES]
