"""aiohttp's client: a middleware below all others, and readers of answers that are heard as they are fed."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import Any

from rotoscope.recorder.encodings import Undecodable
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.spans import counts
from rotoscope.sdk.transports.hearing import OF_THE_BODY, Hearing, harmless, hearing_of
from rotoscope.sdk.transports.patching import listening, put_around

_OF_A_READER = ("_buffer", "_size", "_http_chunk_splits", "total_bytes", "feed_data", "feed_eof", "set_exception")
"""What is used of a reader that is no part of its interface, or may be none."""


def patch(module: ModuleType) -> None:
    """Let the requests of the module be heard. Raises AttributeError where it is of another kind than is known here."""
    known = {*dir(module.StreamReader), *module.StreamReader.__init__.__code__.co_names}
    takes = inspect.signature(module.ClientSession._request).parameters
    for name in {*_OF_A_READER} - known | {"middlewares"} - {*takes} | {"update_body"} - {*dir(module.ClientRequest)}:
        raise AttributeError(name)
    put_around(module.ClientSession, "_request", _Client(module).around)


class _Client:
    """aiohttp."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._reader = type("StreamReader", (_HeardReader, module.StreamReader), {"__slots__": ()})

    def around(self, request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def sends(session: Any, *args: Any, **kwargs: Any) -> Any:
            if listening() is None:
                return await request(session, *args, **kwargs)
            given = kwargs.get("middlewares")
            unpacks = kwargs.get("auto_decompress")
            if unpacks is None:
                unpacks = session._auto_decompress
            middlewares = [*(session._middlewares if given is None else given)]
            middlewares.append(functools.partial(self._pass, is_unpacked=unpacks))
            return await request(session, *args, **{**kwargs, "middlewares": middlewares})

        return sends

    async def _pass(self, request: Any, send: Callable[[Any], Awaitable[Any]], *, is_unpacked: bool) -> Any:
        """Send a request and let its answer be heard; its body is plain if the client unpacks it."""
        hearing = hearing_of(listening(), lambda: self._request(request))
        if hearing is None:
            return await send(request)
        try:
            async with _changed(request, hearing):
                response = await send(request)
            if hearing.is_refused(response.status):
                response.close()
                async with _changed(request, hearing):
                    response = await send(request)
        except BaseException as error:  # a client that leaves, too: the recording has to know the end
            hearing.stopped(error)
            raise
        if hearing.listens:
            harmless(hearing, lambda: self._hear(response, hearing, is_unpacked=is_unpacked), None)
        return response

    def _hear(self, response: Any, hearing: Hearing, *, is_unpacked: bool) -> None:
        encoding = "" if is_unpacked else response.headers.get("content-encoding", "")
        untrue = hearing.answer(response.status, response.headers.get("content-type", ""), encoding)
        _leave_out(untrue, response)
        self._attach(response.content, hearing)

    def _request(self, request: Any) -> Request | None:
        """Return a request, unless its body is known only when it is sent."""
        body = request.body
        if isinstance(body, self._module.payload.BytesPayload):
            body = body._value
        if not isinstance(body, bytes):
            return None
        headers = request.headers
        if request.compress:  # it is packed when it is sent
            headers = headers.copy()
            headers.pop("content-encoding", None)
        return Request(request.method, str(request.url), headers, body)

    def _attach(self, reader: Any, hearing: Hearing) -> None:
        """Let a reader be heard, from what it was fed already."""
        if type(reader) is self._module.StreamReader:
            _hear_buffered(reader, hearing)
            if not reader.is_eof() and reader.exception() is None:
                reader.__class__ = self._reader
                _hearings[id(reader)] = hearing, self._module.ClientConnectionError
                return
        if (error := reader.exception()) is not None:
            hearing.stopped(error)
        elif reader.is_eof():
            hearing.end()
        else:
            hearing.failed()


@contextlib.asynccontextmanager
async def _changed(request: Any, hearing: Hearing) -> AsyncIterator[None]:
    """Have a request with what is added; afterwards it is the client's own again, which may be sent elsewhere."""
    headers, body, is_changed = request.headers.copy(), request.body, hearing.is_changed
    try:
        try:
            await _change(request, hearing)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.fail(error)
            hearing.take_back()
            request.headers.clear()
            request.headers.extend(headers)
        yield
    finally:
        try:
            if is_changed:
                await request.update_body(body)
            request.headers.clear()
            request.headers.extend(headers)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.fail(error)


async def _change(request: Any, hearing: Hearing) -> None:
    if hearing.is_changed:
        await request.update_body(hearing.body)
        of_the_body = hearing.of_the_body
        if request.compress:
            del of_the_body["content-length"]
        else:
            request.headers.popall("content-encoding", None)
        for name in OF_THE_BODY & of_the_body.keys():
            request.headers.popall(name, None)
        request.headers.extend(of_the_body)
    request.headers.update(hearing.added)


def _leave_out(names: frozenset[str], response: Any) -> None:
    if not any(name in response.headers for name in names):
        return
    kept = response.headers.copy()
    for name in names:
        kept.popall(name, None)
    response._headers = type(response.headers)(kept)
    response._cache.pop("headers", None)
    response._raw_headers = tuple(x for x in response.raw_headers if x[0].decode("latin-1").lower() not in names)


def _hear_buffered(reader: Any, hearing: Hearing) -> None:
    """Hear what a reader holds that nobody has read from, and let it hold what the client is to get of that."""
    came = given = 0
    kept: list[bytes] = []
    ends = {0: 0}
    for piece in reader._buffer:
        kept.append(hearing.chunk(piece))
        came, given = came + len(piece), given + len(kept[-1])
        ends[came] = given
    if reader.is_eof():
        kept.append(hearing.end())
        given += len(kept[-1])
    if kept == [*reader._buffer, *([b""] if reader.is_eof() else [])]:
        return
    reader._buffer = deque(filter(None, kept))
    reader._size = reader.total_bytes = given
    if reader._http_chunk_splits is not None:
        kind = type(reader._http_chunk_splits)  # a list, in older versions
        reader._http_chunk_splits = kind(dict.fromkeys(ends.get(x, given) for x in reader._http_chunk_splits))


_hearings: dict[int, tuple[Hearing, type[Exception]]] = {}
"""Who hears a reader that is being fed, by its identity, as it has no place for that; and the error of who closes it."""


class _HeardReader:
    """A reader that is heard as it is fed."""

    __slots__ = ()

    def feed_data(self, data: bytes, *args: Any) -> Any:
        hearing, _ = _hearings[id(self)]
        try:
            forwarded = hearing.chunk(data) if data else data
        except Undecodable as error:
            self.set_exception(ValueError(str(error)))
            return False
        return super().feed_data(forwarded, *args)  # type: ignore[misc]

    def feed_eof(self) -> None:
        if rest := self._leave().end():
            super().feed_data(rest)  # type: ignore[misc]
        self.feed_eof()

    def set_exception(self, error: BaseException, *args: Any) -> None:
        closed = _hearings[id(self)][1]
        hearing = self._leave()
        hearing.stopped(error, is_impatient=type(error) is closed)
        self.set_exception(error, *args)

    def _leave(self) -> Hearing:
        """Be an ordinary reader again."""
        hearing, _ = _hearings.pop(id(self))
        self.__class__ = type(self).__mro__[2]
        return hearing
