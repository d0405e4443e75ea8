"""A request of this process on its way out: what is changed in it, and who hears its answer.

The patched transports of HTTP clients know nothing of recorders: they ask a `Listener` for each request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class Request(NamedTuple):
    """A request as the client is about to send it."""

    method: str
    url: str
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    body: bytes


class Outgoing(Protocol):
    """A request and its answer. None of this raises; times are taken when it is called."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Header lines to send beside the client's own."""

    @property
    def body(self) -> bytes:
        """The body to send; the client's own object where nothing is added."""

    @property
    def listens(self) -> bool:
        """Whether it wants to hear the answer; if not, the client's own is left as it is."""

    def take_back(self) -> None:
        """The server refused it for what was added: it is sent once more as it came."""

    def response(self, status: int, content_type: str) -> None:
        """The answer begins."""

    def chunk(self, data: bytes) -> bytes:
        """Some of the answer, plain, has come; return what the client is to get of it now."""

    def end(self) -> bytes:
        """The answer is whole; return what was still held back."""

    def failed(self) -> None:
        """There will be no answer, or no more of it."""

    def cancelled(self) -> None:
        """The client does not wait for the rest."""


Listener = Callable[[Request], Outgoing | None]
"""Takes a request; None where nothing is to be done about it. Never raises."""
