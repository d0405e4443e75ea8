"""httpx, and httpx2 that follows it: what goes through their own transports, below redirects and authentication."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

from rotoscope.recorder.encodings import Undecodable
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.transports.hearing import OF_THE_BODY, Hearing, harmless, hearing_of
from rotoscope.sdk.transports.patching import listening, put_around


def patch(module: ModuleType) -> None:
    """Let the requests of a module that is httpx, or like it, be heard. Raises AttributeError where it is not."""
    kind = _Kind(module)
    put_around(module.HTTPTransport, "handle_request", kind.around_sync)
    put_around(module.AsyncHTTPTransport, "handle_async_request", kind.around_async)


class _Kind:
    """httpx or httpx2."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._stream = type("HeardStream", (_HeardStream, module.SyncByteStream), {})
        self._async_stream = type("HeardStream", (_HeardAsyncStream, module.AsyncByteStream), {})

    def around_sync(self, send: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def handle_request(transport: Any, request: Any) -> Any:
            hearing = hearing_of(listening(), lambda: self._request(request))
            if hearing is None:
                return send(transport, request)
            try:
                response = send(transport, self._sent(request, hearing))
                if hearing.is_refused(response.status_code):
                    response.close()
                    response = send(transport, self._sent(request, hearing))
            except BaseException as error:  # a client that leaves, too: the recording has to know the end
                self.stop(hearing, error)
                raise
            return harmless(hearing, lambda: self._heard(response, hearing, self._stream), response)

        return handle_request

    def around_async(self, send: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            hearing = hearing_of(listening(), lambda: self._request(request))
            if hearing is None:
                return await send(transport, request)
            try:
                response = await send(transport, self._sent(request, hearing))
                if hearing.is_refused(response.status_code):
                    await response.aclose()
                    response = await send(transport, self._sent(request, hearing))
            except BaseException as error:  # a client that leaves, too: the recording has to know the end
                self.stop(hearing, error)
                raise
            return harmless(hearing, lambda: self._heard(response, hearing, self._async_stream), response)

        return handle_async_request

    def stop(self, hearing: Hearing, error: BaseException) -> None:
        hearing.stopped(error, is_impatient=isinstance(error, self._module.TimeoutException))

    def undecodable(self, error: Undecodable) -> Exception:
        """Return what the client raises itself where an answer is not what its encoding says."""
        made: Exception = self._module.DecodingError(str(error))
        return made

    def _request(self, request: Any) -> Request | None:
        """Return a request, unless its body is known only when it is sent."""
        if not isinstance(request.stream, self._module.ByteStream):
            return None
        return Request(request.method, str(request.url), request.headers, b"".join(request.stream))

    def _sent(self, request: Any, hearing: Hearing) -> Any:
        """Return what is sent; the client's own request stays as it is."""
        if not hearing.added and not hearing.is_changed:
            return request
        return harmless(hearing, lambda: self._with_more(request, hearing), request)

    def _with_more(self, request: Any, hearing: Hearing) -> Any:
        raw: list[tuple[bytes, bytes]] = request.headers.raw
        lines, stream = [*hearing.added.items()], request.stream
        if hearing.is_changed:
            raw = [(name, value) for name, value in raw if name.decode("latin-1").lower() not in OF_THE_BODY]
            lines += hearing.of_the_body.items()
            stream = self._module.ByteStream(hearing.body)
        added = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in lines]
        headers = [*raw, *added]
        return self._module.Request(
            request.method, request.url, headers=headers, stream=stream, extensions=request.extensions
        )

    def _heard(self, response: Any, hearing: Hearing, stream: Callable[..., Any]) -> Any:
        if not hearing.listens:
            return response
        headers = response.headers
        encoding = headers.get("content-encoding", "")
        for name in hearing.answer(response.status_code, headers.get("content-type", ""), encoding):
            headers.pop(name, None)
        response.stream = stream(self, response.stream, hearing)
        return response


class _Heard:
    """The body of an answer that is heard as the client takes it."""

    def __init__(self, kind: _Kind, stream: Any, hearing: Hearing) -> None:
        self._kind, self._stream, self._hearing = kind, stream, hearing

    def _chunk(self, data: bytes) -> bytes:
        try:
            return self._hearing.chunk(data)
        except Undecodable as error:
            raise self._kind.undecodable(error) from None


class _HeardStream(_Heard):
    def __iter__(self) -> Iterator[bytes]:
        try:
            for data in self._stream:
                if (forwarded := self._chunk(data)) or not data:
                    yield forwarded
        except BaseException as error:  # a client that leaves, too: the recording has to know the end
            self._kind.stop(self._hearing, error)
            raise
        if rest := self._hearing.end():
            yield rest

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._hearing.cancelled()


class _HeardAsyncStream(_Heard):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        stream = self._stream.__aiter__()
        try:
            async for data in stream:
                if (forwarded := self._chunk(data)) or not data:
                    yield forwarded
        except BaseException as error:  # a client that leaves, too: the recording has to know the end
            self._kind.stop(self._hearing, error)
            raise
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()
        if rest := self._hearing.end():
            yield rest

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._hearing.cancelled()
