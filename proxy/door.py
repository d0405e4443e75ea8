"""Who may use the gateway: on loopback everything but web pages of other sites, elsewhere only who has the token.

A page in a browser of this machine reaches loopback too. It shows by its `Origin`, or, where it made its own name lead
here (DNS rebinding), by a name in `Host` that is none of this machine's.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from rotoscope.recorder.own_headers import TOKEN_HEADER

_NAMES = {
    "localhost",
    "host.docker.internal",  # of the machine, in its containers
    "gateway.docker.internal",
    "host.containers.internal",
    "host.lima.internal",
    "host.orb.internal",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request may not pass, in words for its sender."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Door:
    """Lets requests in or not."""

    token: str = field(default="", repr=False)
    """What every request must bring; empty where none is asked for."""

    def refusal(self, headers: Mapping[str, str], token: str) -> Refusal | None:
        """Return why a request may not pass, None when it may; `token` is the one in its path."""
        if self.token:
            given = token or headers.get(TOKEN_HEADER, "")
            is_right = hmac.compare_digest(given.encode(errors="replace"), self.token.encode())
            return (
                None if is_right else Refusal(401, f"send the token in {TOKEN_HEADER}, or as /token/TOKEN in the path")
            )
        if not _is_of_this_machine(headers.get("Host", "")):
            return Refusal(403, "the name in Host is none of this machine's: use 127.0.0.1 or localhost")
        if _is_of_another_site(headers):
            return Refusal(403, "web pages of other sites may not use the gateway")
        return None


@lru_cache(maxsize=64)
def _is_of_this_machine(host: str) -> bool:
    """Tell whether a name can only lead here; without one it is no browser that asks."""
    if not host:
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return name in _NAMES or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    """Tell whether a host is an address, which no name server can let lead elsewhere."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_of_another_site(headers: Mapping[str, str]) -> bool:
    origin = headers.get("Origin")
    if origin is None:  # a page may ask for images and the like without telling who it is, but not where
        return headers.get("Sec-Fetch-Site") == "cross-site"
    try:
        parsed = urlsplit(origin)
        host = parsed.hostname or ""
    except ValueError:
        return True
    if parsed.scheme in ("http", "https"):
        return not (host.endswith(".localhost") or is_loopback(host))
    return not parsed.scheme  # `null`; programs that are built like pages have schemes of their own


def is_loopback(host: str) -> bool:
    """Tell whether a host is reached from this machine alone."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)
