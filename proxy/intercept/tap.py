"""One request on its way through mitmproxy, and the exchange of a recorder that hears its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rotoscope.proxy.intercept.again import Came
from rotoscope.proxy.relay import REFUSING
from rotoscope.recorder.encodings import Decoder, Undecodable, decoder_of
from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.recorded_run import Run


class Tap:
    """Tell an exchange what happens to its request, and take out of the answer what the recorder asked for itself."""

    failure = ""
    """Why the answer could not be heard, in words for people."""
    is_accepted = False
    """Whether the server began to answer with status 200."""

    is_refused = False
    """Whether the server refuses the request, perhaps for what the recorder has added to it."""

    def __init__(
        self, exchange: Exchange, run: Run, *, as_it_came: Came | None, client_id: str, clock: Callable[[], float]
    ) -> None:
        """`as_it_came` is what came where the recorder has added something: then it may hold bytes of the answer back."""
        self.exchange = exchange
        self.run = run
        self.as_it_came = as_it_came
        self.client_id = client_id
        """The connection of its client, by mitmproxy's name of it."""
        self._shortens = as_it_came is not None
        self._clock = clock
        self._decoder: Decoder | None = None
        self._is_heard = exchange.listens
        self._left: int | None = None
        """Bytes of the body that are still to come; None where its head does not tell."""

    def begin(self, response: Any, *, is_http11: bool) -> None:
        """Take in the head of the answer, an `http.Response`, and let its body pass through here as it comes."""
        if self._shortens and response.status_code in REFUSING:
            self.is_refused = True
            return
        self.is_accepted = response.status_code == 200
        response.stream = True
        if not self._is_heard or not self._can_read(response):
            return
        content_type = response.headers.get("content-type", "")
        self.exchange.response(response.status_code, at_s=self._clock(), content_type=content_type)
        response.stream = self._take
        self._left = _length(response)
        if self._shortens:
            self._leave_out_length(response, is_http11=is_http11)

    def take_whole(self, response: Any) -> None:
        """Take in the answer to the request as it came, which is whole."""
        self.exchange.take_back()
        self._shortens = self.is_refused = False
        self.begin(response, is_http11=False)
        if callable(response.stream):
            response.stream(response.raw_content)
        response.stream = False
        self.end()

    def end(self) -> bytes:
        """Tell that the answer has ended; return the last bytes that pass."""
        if not self._is_heard:
            return b""
        self._is_heard = False
        rest = self.exchange.end(at_s=self._clock())
        return b"" if self._passes_as_it_is else rest

    def break_off(self, *, by_client: bool) -> None:
        """Tell that one side has left before the end."""
        if self._is_heard:
            self._is_heard = False
            (self.exchange.cancelled if by_client else self.exchange.failed)(at_s=self._clock())

    @property
    def _passes_as_it_is(self) -> bool:
        """Whether what passes is what came, compressed, while the recorder hears it unpacked."""
        return self._decoder is not None and not self._shortens

    def _take(self, data: bytes) -> Sequence[bytes]:
        """Take in bytes of the answer, none at its end, and return pieces that pass.

        It has ended when its length has come: over HTTP/2 the end itself is a frame of its own, for which a client need
        not wait. No piece is empty: mitmproxy would write it as the chunk that ends a body of HTTP/1.
        """
        passed = self._passed(data) if data else b""
        if self._left is not None:
            self._left -= len(data)
        if not data or self._left == 0:
            passed += self.end()
        return [passed] if passed else []

    def _passed(self, data: bytes) -> bytes:
        if not self._is_heard:
            return data
        passed = self.exchange.chunk(self._plain(data), at_s=self._clock())
        return data if self._passes_as_it_is else passed

    def _plain(self, data: bytes) -> bytes:
        if self._decoder is None:
            return data
        try:
            return self._decoder.decompress(data)
        except Undecodable as problem:
            self.failure = str(problem)
            self.break_off(by_client=False)
            if self._shortens:
                raise  # what is left cannot be told from what the client did not ask for
            return b""

    def _can_read(self, response: Any) -> bool:
        """Tell whether the recorder can hear the answer."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding == "identity":
            return True
        self._decoder = decoder_of(encoding)
        if self._decoder is None:
            self.failure = "its server sent an encoding that was not asked for and cannot be recorded"
            self.break_off(by_client=False)
            return False
        return True

    def _leave_out_length(self, response: Any, *, is_http11: bool) -> None:
        if self._decoder is not None:
            del response.headers["content-encoding"]
        if response.headers.pop("content-length", None) is not None and is_http11:
            response.headers["transfer-encoding"] = "chunked"


def _length(response: Any) -> int | None:
    """Return how long the body of an answer is by its head, an `http.Response`."""
    length: str = response.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None
