"""One request on its way: to the upstream, and its answer back to the client as it comes.

Every byte of the answer passes unchanged, but for what the recorder holds back of an answer it asked to be longer (the
usage chunk). The recorder reads plain text: the gateway asks for identity encoding, and takes others off where they come
all the same. No redirect is followed, a client that hangs up ends the upstream's request, and nothing is tried twice but
a request that the recorder has added to: where it is refused, it is sent once more as it came.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable

import aiohttp
import orjson
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict
from yarl import URL

from rotoscope.proxy.headers import OF_THE_GATEWAY, TO_THE_GATEWAY, end_to_end, in_one_spelling
from rotoscope.proxy.reasons import reason_of
from rotoscope.recorder.encodings import Decoder, Undecodable, decoder_of
from rotoscope.recorder.exchange import Exchange

LARGE_BODY_BYTES = 1 << 20
"""Larger bodies are handed to the socket in pieces; in one piece they would hold up every other call."""

REFUSING = (400, 422)
"""How servers answer that do not know a field of a request."""

_UPSTREAM_FAILED = (aiohttp.ClientError, OSError, asyncio.TimeoutError, Undecodable)


class ClientGone(Exception):
    """The client hung up while its answer was being written."""


class PassedResponse(web.StreamResponse):
    """An answer that has the upstream's header lines and none of aiohttp's own.

    What it overrides are seams of aiohttp that have no public form; should they go, lines are added or sent earlier.
    """

    def __init__(self, answer: aiohttp.ClientResponse, *, without: set[bytes]) -> None:
        super().__init__(status=answer.status, reason=answer.reason)
        self.headers.extend(end_to_end(answer.raw_headers, without=without))
        self._additions = [name for name in ("Content-Type", "Date", "Server") if name not in answer.headers]

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        for name in self._additions:
            self.headers.pop(name, None)

    def leave_with_body(self) -> None:
        """Let the header wait for the first bytes of the body, as they are here already."""
        self._send_headers_immediately = False


class Relay:
    """Carry one request through, and tell its exchange what happens when."""

    failure = ""
    """Why the upstream could not answer, in words for people; empty when it could."""
    is_complete = False
    """Whether the answer came to its end."""
    is_addition_refused = False
    """Whether the upstream took the request as it came, and not with what the recorder had added."""

    def __init__(
        self,
        request: web.BaseRequest,
        exchange: Exchange,
        *,
        session: aiohttp.ClientSession,
        clock: Callable[[], float],
    ) -> None:
        self._request = request
        self._exchange = exchange
        self._is_heard = exchange.listens
        self._session = session
        self._clock = clock
        self._is_tried_again = False
        self._decoder: Decoder | None = None
        self._answer: aiohttp.ClientResponse | None = None
        self._response: web.StreamResponse = web.Response(status=502)

    @property
    def is_accepted(self) -> bool:
        """Whether the upstream began to answer with status 200."""
        return self._answer is not None and self._answer.status == 200

    async def run(
        self, url: URL, body: bytes | aiohttp.StreamReader, *, as_it_came: bytes | None = None
    ) -> web.StreamResponse:
        """Send the request to `url` with `body`, pass the answer on and return it.

        `as_it_came` is the client's own body where the recorder has added something. Then `body` has been taken off its
        encoding, and the recorder may hold bytes of the answer back, so that its length is not known before.
        """
        try:
            is_taken = await self._send(url, body, is_changed=as_it_came is not None)
            if not is_taken and as_it_came is not None:
                self._exchange.take_back()
                await self._send(url, as_it_came, is_changed=False)
        except asyncio.CancelledError:
            self._client_left()
            raise
        except ClientGone:
            self._client_left()
        except _UPSTREAM_FAILED as error:
            self._upstream_failed(reason_of(error))
        return self._response

    async def _send(self, url: URL, body: bytes | aiohttp.StreamReader, *, is_changed: bool) -> bool:
        """Send the request and pass the answer on; return False where it is refused for what may have been added."""
        headers = self._headers(body, is_unpacked=is_changed)
        async with self._session.request(
            self._request.method, url, data=_payload(body), headers=headers, allow_redirects=False
        ) as answer:
            if is_changed and answer.status in REFUSING:
                self._is_tried_again = True
                return False
            self._answer = answer
            self.is_addition_refused = self._is_tried_again and answer.ok
            await self._begin(answer, shortens=is_changed)
            await self._pass(answer)
        return True

    def _headers(self, body: bytes | aiohttp.StreamReader, *, is_unpacked: bool) -> CIMultiDict[str]:
        without = OF_THE_GATEWAY
        if is_unpacked:
            without |= {b"content-encoding"}
        if isinstance(body, bytes):
            without |= {b"content-length"}
        if self._is_heard:
            without |= {b"accept-encoding"}
        headers = in_one_spelling(end_to_end(self._request.raw_headers, without=without, without_prefix=TO_THE_GATEWAY))
        if self._is_heard:
            headers.add("Accept-Encoding", "identity")
        return headers

    async def _begin(self, answer: aiohttp.ClientResponse, *, shortens: bool) -> None:
        without: set[bytes] = set()
        if self._is_heard:
            without |= self._read_as_text(answer)
            if shortens:
                without.add(b"content-length")
            self._exchange.response(
                answer.status, at_s=self._clock(), content_type=answer.headers.get("Content-Type", "")
            )
        self._response = response = PassedResponse(answer, without=without)
        if self._request.version < HttpVersion11 and "Content-Length" not in response.headers:
            response.force_close()  # nothing else tells this client where the answer ends
        if answer.content.is_eof():
            response.leave_with_body()
        await _to_client(response.prepare(self._request))

    def _read_as_text(self, answer: aiohttp.ClientResponse) -> set[bytes]:
        """Make the answer readable for the recorder; return the header lines that are no longer true of it."""
        encoding = answer.headers.get("Content-Encoding", "identity").lower()
        if encoding == "identity":
            return set()
        self._decoder = decoder_of(encoding)
        if self._decoder is not None:
            return {b"content-encoding", b"content-length"}
        self.failure = "it sent an encoding that was not asked for and cannot be recorded"
        self._exchange.failed(at_s=self._clock())
        self._is_heard = False
        return set()

    async def _pass(self, answer: aiohttp.ClientResponse) -> None:
        response, exchange, content, clock = self._response, self._exchange, answer.content, self._clock
        last = b""
        async for data in content.iter_any():
            if self._decoder is not None:
                data = self._decoder.decompress(data)
            if self._is_heard:
                data = exchange.chunk(data, at_s=clock())
            if content.at_eof():
                last = data
                break
            if data:
                await _to_client(response.write(data))
        if self._is_heard:
            last += exchange.end(at_s=clock())
        self.is_complete = True
        await _to_client(response.write_eof(last))

    def _client_left(self) -> None:
        if self._is_heard and not self.is_complete:
            self._exchange.cancelled(at_s=self._clock())

    def _upstream_failed(self, reason: str) -> None:
        self.failure = reason
        if self._is_heard:
            self._exchange.failed(at_s=self._clock())
        if not self._response.prepared:
            self._response = gateway_error(502, f"the gateway could not reach the upstream server: {reason}")
        elif self._request.transport is not None:
            # The client must not take what it has for the whole answer: its connection breaks off as the upstream's did.
            self._request.transport.close()


async def _to_client(sending: Awaitable[object]) -> None:
    """Send something to the client; an error of that connection is not one of the upstream's."""
    try:
        await sending
    except ConnectionError as error:
        raise ClientGone from error


def gateway_error(status: int, message: str) -> web.Response:
    """Return an error of the gateway itself, in the form that OpenAI clients read."""
    error = {"message": f"rotoscope: {message}", "type": "gateway_error", "param": None, "code": None}
    return web.Response(status=status, body=orjson.dumps({"error": error}), content_type="application/json")


def _payload(body: bytes | aiohttp.StreamReader) -> bytes | io.BytesIO | aiohttp.StreamReader | None:
    if not isinstance(body, bytes):
        return body
    if len(body) > LARGE_BODY_BYTES:
        return io.BytesIO(body)
    return body or None
