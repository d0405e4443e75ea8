"""requests: what goes through its adapters, below redirects; urllib3 reads the answers, in chunks or in one length."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from rotoscope.recorder.encodings import Undecodable
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.transports.hearing import OF_THE_BODY, Hearing, harmless, hearing_of
from rotoscope.sdk.transports.patching import listening, put_around


def patch(module: ModuleType) -> None:
    """Let the requests of the module be heard. Raises AttributeError where it is of another kind than is known here."""
    from urllib3.response import HTTPResponse

    for name in ("_fp_read", "_handle_chunk", "read_chunked", "close"):
        getattr(HTTPResponse, name)
    put_around(module.adapters.HTTPAdapter, "send", functools.partial(_around, module))


def _around(module: Any, send: Callable[..., Any]) -> Callable[..., Any]:
    def sends(adapter: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        hearing = hearing_of(listening(), lambda: _request(request))
        if hearing is None:
            return send(adapter, request, *args, **kwargs)
        try:
            response = send(adapter, _sent(request, hearing), *args, **kwargs)
            if hearing.is_refused(response.status_code):
                response.close()
                response = send(adapter, _sent(request, hearing), *args, **kwargs)
        except BaseException as error:  # a client that leaves, too: the recording has to know the end
            hearing.stopped(error, is_impatient=isinstance(error, module.exceptions.Timeout))
            if getattr(error, "request", None) is not None:
                error.request = request  # type: ignore[attr-defined]
            raise
        response.request = request
        return harmless(hearing, lambda: _heard(response, hearing), response) if hearing.listens else response

    return sends


def _request(request: Any) -> Request | None:
    """Return a request, unless its body is known only when it is sent."""
    body = b"" if request.body is None else request.body
    if isinstance(body, str):
        body = body.encode()
    return Request(request.method, request.url, request.headers, body) if isinstance(body, bytes) else None


def _sent(request: Any, hearing: Hearing) -> Any:
    """Return what is sent; the client's own request stays as it is."""
    if not hearing.added and not hearing.is_changed:
        return request
    return harmless(hearing, lambda: _with_more(request, hearing), request)


def _with_more(request: Any, hearing: Hearing) -> Any:
    sent = request.copy()
    if hearing.is_changed:
        sent.body = hearing.body
        for name in OF_THE_BODY:
            sent.headers.pop(name, None)
        sent.headers.update(hearing.of_the_body)
    sent.headers.update(hearing.added)
    return sent


def _heard(response: Any, hearing: Hearing) -> Any:
    raw, headers = response.raw, response.headers
    encoding, kind = headers.get("content-encoding", ""), headers.get("content-type", "")
    untrue = hearing.answer(response.status_code, kind, encoding)
    for name in untrue:
        headers.pop(name, None)
        raw.headers.pop(name, None)
    raw.__class__ = _heard_kind(type(raw))
    raw.hearing = hearing
    if "content-length" in untrue:
        raw.length_remaining = None
    return response


_heard_kinds: dict[type, type] = {}


def _heard_kind(kind: type) -> type:
    if kind not in _heard_kinds:
        _heard_kinds[kind] = type(kind.__name__, (_HeardAnswer, kind), {"__module__": kind.__module__})
    return _heard_kinds[kind]


class _HeardAnswer:
    """An answer of urllib3 that is heard as the client takes it; its two ways to take it are overridden where they end.

    It is made of an answer that has begun, so that it is never initialised.
    """

    hearing: Hearing
    is_at_it = False
    """Whether urllib3 reads, and may close what breaks off."""
    length_remaining: int | None
    _fp: Any

    def _fp_read(self, *args: Any, **kwargs: Any) -> bytes:
        """Read what is no chunk, or let it be taken out of chunks by Python; nothing is read at the end alone."""
        hearing, wanted = self.hearing, kwargs.get("amt", args[0] if args else None)
        while True:
            try:
                data: bytes = super()._fp_read(*args, **kwargs)  # type: ignore[misc]
            except BaseException as error:  # a client that leaves, too: the recording has to know the end
                hearing.stopped(error)
                raise
            forwarded = self._chunk(data) if data else data
            if self._is_at_end(data, wanted):
                return forwarded + self._end()
            if forwarded or wanted == 0:
                return forwarded

    def _is_at_end(self, data: bytes, wanted: int | None) -> bool:
        is_closed = getattr(self._fp, "isclosed", None)
        is_last = self.length_remaining == len(data) and wanted != 0
        return bool(is_last or wanted is None or (is_closed is not None and is_closed()) or not (data or wanted == 0))

    def _end(self) -> bytes:
        left = getattr(self._fp, "length", None)
        if not left:
            return self.hearing.end()
        self.hearing.failed()
        if self.length_remaining is None:
            self.length_remaining = left  # urllib3 shall tell that it came to an end too early
        return b""

    def _handle_chunk(self, amt: int | None) -> bytes:
        return self._chunk(super()._handle_chunk(amt))  # type: ignore[misc]

    def read_chunked(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
        pieces = super().read_chunked(amt, decode_content=decode_content)  # type: ignore[misc]
        try:
            while (piece := self._next(pieces)) is not None:
                yield piece
        except BaseException as error:  # a client that leaves, too: the recording has to know the end
            self.hearing.stopped(error)
            raise
        finally:
            pieces.close()
        if amt != 0 and (rest := self.hearing.end()):
            yield rest

    def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        self.is_at_it = True
        try:
            return next(pieces, None)
        finally:
            self.is_at_it = False

    def close(self) -> None:
        try:
            super().close()  # type: ignore[misc]
        finally:
            if not self.is_at_it:
                self.hearing.cancelled()

    def _chunk(self, data: bytes) -> bytes:
        try:
            return self.hearing.chunk(data)
        except Undecodable as error:
            from urllib3.exceptions import DecodeError

            self.hearing.failed()
            raise DecodeError(str(error)) from None
