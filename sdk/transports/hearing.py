"""One request and its answer, between a client and what hears them: sans-IO, for the patches of all clients.

Whatever goes wrong with hearing, the client gets what it would have got without.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from rotoscope.recorder.encodings import Undecodable, decoder_of
from rotoscope.sdk.outgoing import Listener, Outgoing, Request
from rotoscope.sdk.spans import counts

T = TypeVar("T")

REFUSING = (400, 422)
"""How servers answer that do not know a field of a request."""
OF_THE_BODY = frozenset({"content-length", "content-encoding", "accept-encoding"})
"""What is said in headers of a request with a body that was changed is not what the client said."""

_AS_IT_IS = frozenset[str]()
_SHORTER = frozenset({"content-length"})
_PLAIN = frozenset({"content-length", "content-encoding"})


class Hearing:
    """One request and its answer, which a client takes no other notice of."""

    def __init__(self, outgoing: Outgoing, body: bytes) -> None:
        """Raise what the listener raises."""
        self._outgoing = outgoing
        self._came = body
        self.added: Mapping[str, str] = dict(outgoing.headers)
        """Header lines to send beside the client's own."""
        self.body = outgoing.body
        """What to send."""
        self.listens = outgoing.listens
        """Whether the answer is to be heard."""
        self._may_withhold = False
        self._decoder: _Decoder | None = None
        self._is_over = False

    @property
    def is_changed(self) -> bool:
        """Whether something else is sent than what the client gave."""
        return self.body is not self._came

    @property
    def of_the_body(self) -> dict[str, str]:
        """Header lines of a changed body, in the place of those in `OF_THE_BODY`."""
        return {"content-length": str(len(self.body)), "accept-encoding": "identity"}

    def is_refused(self, status: int) -> bool:
        """Tell whether an answer refuses what was added, so that the request is to be sent once more as it came."""
        if not self.is_changed or status not in REFUSING:
            return False
        self.take_back()
        return True

    def take_back(self) -> None:
        """Send the body as it came."""
        self.body = self._came
        self._tell(self._outgoing.take_back)

    def answer(self, status: int, content_type: str, encoding: str = "") -> frozenset[str]:
        """Take in the head of an answer; return the names of header lines that are no longer true of what follows."""
        self._tell(self._outgoing.response, status, content_type)
        encoding = encoding.strip().lower()
        if encoding in ("", "identity"):
            self._may_withhold = self.is_changed
            is_whole = content_type.partition(";")[0].strip().lower().endswith("json")
            return _SHORTER if self._may_withhold and not is_whole else _AS_IT_IS
        self._decoder = _decoder_of(encoding)
        if self._decoder is None:
            self.failed()
            return _AS_IT_IS
        self._may_withhold = self.is_changed
        return _PLAIN if self._may_withhold else _AS_IT_IS

    def chunk(self, data: bytes) -> bytes:
        """Take in some of the answer as it came, and return what the client is to get of it.

        Raises Undecodable where the client gets it plain and it is not what its encoding says.
        """
        if self._may_withhold:
            plain = data if self._decoder is None else self._decoder.decompress(data)
            return self._tell(self._outgoing.chunk, plain, otherwise=plain)
        if not self._is_over:
            self._tell_plain(data)
        return data

    def _tell_plain(self, data: bytes) -> None:
        try:
            plain = data if self._decoder is None else self._decoder.decompress(data)
        except Undecodable:
            self.failed()
            return
        if plain:
            self._tell(self._outgoing.chunk, plain)

    def end(self) -> bytes:
        """Take in that the answer is whole; return what the client is still to get."""
        rest = self._tell(self._outgoing.end, otherwise=b"")
        self._is_over = True
        return rest if self._may_withhold else b""

    def stopped(self, error: BaseException, *, is_impatient: bool = False) -> None:
        """Take in what ended the request; `is_impatient` if it is that the client has waited for too long."""
        if isinstance(error, Exception) and not (is_impatient or isinstance(error, TimeoutError)):
            self.failed()
        else:
            self.cancelled()

    def failed(self) -> None:
        """Take in that no more will come."""
        self._stop(self._outgoing.failed)

    def cancelled(self) -> None:
        """Take in that the client does not want more, if there might be more."""
        self._stop(self._outgoing.cancelled)

    def _stop(self, told: Callable[[], object]) -> None:
        if not self._is_over:
            self._tell(told)
            self._is_over = True

    def _tell(self, told: Callable[..., T], *args: Any, otherwise: Any = None) -> T:
        """Tell the listener something; the first time that it raises is the last."""
        if self._is_over:
            return otherwise  # type: ignore[no-any-return]
        try:
            return told(*args)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._is_over = True
            counts.fail(error)
            return otherwise  # type: ignore[no-any-return]


def harmless(hearing: Hearing, act: Callable[[], T], otherwise: T) -> T:
    """Do to a request or an answer of a client what hearing it needs; where that fails it is left as it is, unheard."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(error)
        hearing.take_back()
        hearing.failed()
        return otherwise


def hearing_of(listener: Listener | None, request: Callable[[], Request | None]) -> Hearing | None:
    """Let a listener hear a request, if its body is known and the listener wants to. Never raises."""
    if listener is None:
        return None
    try:
        asked = request()
        outgoing = None if asked is None else listener(asked)
        return None if asked is None or outgoing is None else Hearing(outgoing, asked.body)
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(error)
        return None


class _Decoder(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


def _decoder_of(encoding: str) -> _Decoder | None:
    if encoding == "deflate":
        return _Deflated()
    if encoding == "br":
        return _Brotli.if_there_is_one()
    return decoder_of(encoding)


class _Deflated:
    """Take off what is called `deflate`, in the format that it ought to have or the one that some servers take it for."""

    def __init__(self) -> None:
        self._is_new = True
        self._unpacking = zlib.decompressobj()

    def decompress(self, data: bytes) -> bytes:
        if not data:
            return b""
        is_new, self._is_new = self._is_new, False
        try:
            return self._unpacking.decompress(data)
        except zlib.error:
            if not is_new:
                raise Undecodable("its body is not what its encoding says") from None
        self._unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        return self.decompress(data)


class _Brotli:
    """Take off Brotli with the library of the client, which asks for it only where it has one."""

    def __init__(self, library: Any) -> None:
        unpacking = library.Decompressor()
        self._decompress = getattr(unpacking, "decompress", None) or unpacking.process
        self._error = library.error

    @classmethod
    def if_there_is_one(cls) -> _Brotli | None:
        for name in ("brotli", "brotlicffi"):
            try:
                return cls(__import__(name))
            except (ImportError, AttributeError):
                continue
        return None

    def decompress(self, data: bytes) -> bytes:
        try:
            return bytes(self._decompress(data))
        except self._error:
            raise Undecodable("its body is not what its encoding says") from None
