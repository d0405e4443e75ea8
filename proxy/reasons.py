"""Why the upstream could not be reached, in words that hold nothing of a call."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp

from rotoscope.recorder.encodings import Undecodable

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorCertificateError, "its TLS certificate is not accepted"),
    (ssl.SSLError, "TLS failed"),
    (aiohttp.ClientConnectorDNSError, "its host name is not known"),
    (ConnectionRefusedError, "the connection was refused"),
    (asyncio.TimeoutError, "no connection in time"),
    (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "its answer broke off"),
    (aiohttp.ClientResponseError, "its answer is no HTTP"),
    (Undecodable, "its body is not what its encoding says"),
    (ConnectionError, "the connection was lost"),
)


def reason_of(error: BaseException) -> str:
    """Return what happened to the connection, as the end of a sentence about the upstream.

    The error's own text is left out: it may repeat what a server sent.
    """
    candidates = [error, getattr(error, "os_error", None)]
    for kind, words in _REASONS:
        if any(isinstance(candidate, kind) for candidate in candidates):
            return words
    return "the connection failed"
