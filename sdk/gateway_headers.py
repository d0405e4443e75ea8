"""Who sends a request, told to the gateway: headers on what goes to it, and nothing on what goes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from rotoscope.recorder.own_headers import BRANCH_HEADER, PARENT_HEADER, TOKEN_HEADER
from rotoscope.sdk.gateways import Gateway
from rotoscope.sdk.here import headers_of
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.scopes import current_scope
from rotoscope.sdk.spans import propagated_traceparent

TRACEPARENT_HEADER = "traceparent"


class GatewayHeaders:
    """Listens for what goes to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __call__(self, request: Request) -> OnlyHeaders | None:
        """Add headers to a request, but none that it has; None where none are to be added."""
        scope = current_scope()
        if scope is None or not self._gateway.is_origin_of(request.url):
            return None
        scope.called()
        ours = headers_of(scope.line)
        if BRANCH_HEADER in request.headers:
            ours.pop(PARENT_HEADER, None)
        if traceparent := propagated_traceparent():
            ours[TRACEPARENT_HEADER] = traceparent
        if self._gateway.token:
            ours[TOKEN_HEADER] = self._gateway.token
        added = {name: value for name, value in ours.items() if name not in request.headers}
        return OnlyHeaders(added, request.body) if added else None


class OnlyHeaders:
    """A request that gets headers; its answer is the gateway's to hear."""

    __slots__ = ("body", "headers")

    listens = False

    def __init__(self, headers: Mapping[str, str], body: bytes) -> None:
        self.headers = headers
        self.body = body

    def take_back(self) -> None:
        """Do nothing, as nothing was added to the body."""

    def response(self, status: int, content_type: str) -> None:
        """Do nothing."""

    def chunk(self, data: bytes) -> bytes:
        """Return what has come."""
        return data

    def end(self) -> bytes:
        """Hold nothing back."""
        return b""

    def failed(self) -> None:
        """Do nothing."""

    def cancelled(self) -> None:
        """Do nothing."""
