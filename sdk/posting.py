"""Posts to a gateway over one connection that is kept, by the standard library: no client that is recorded itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from rotoscope.sdk.gateways import Gateway

TIMEOUT_S = 5.0
"""For each step of a post."""

_LONGEST_ANSWER_BYTES = 1 << 16


class Poster:
    """Posts of one thread to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._connection: HTTPConnection | None = None

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Post to a path and return the status of the answer; raise OSError or HTTPException where there is none."""
        if self._connection is not None:
            with contextlib.suppress(OSError, HTTPException):  # the gateway may have closed what was idle
                return self._post(self._connection, path, headers, body)
            self.close()
        self._connection = self._opened()
        try:
            return self._post(self._connection, path, headers, body)
        except BaseException:  # an interruption too: no connection may stay half used
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def leave(self) -> None:
        """Forget the connection of another process, without a word on it."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                os.close(connection.sock.detach())

    def _opened(self) -> HTTPConnection:
        kind = HTTPSConnection if self._gateway.scheme == "https" else HTTPConnection
        return kind(self._gateway.host, self._gateway.port, timeout=TIMEOUT_S)

    def _post(self, connection: HTTPConnection, path: str, headers: Mapping[str, str], body: bytes) -> int:
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        answer.read(_LONGEST_ANSWER_BYTES)
        if not answer.isclosed():  # whatever it is that answers without an end
            self.close()
        return answer.status
