"""The gateway that records this process: where it is, and what to say to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from rotoscope.recorder.variables import GATEWAY_VARIABLE, RECORD_VARIABLE, TOKEN_VARIABLE

_BEFORE = re.compile(r"(/token/[^/]+)?(/run/[^/]+)?(?=/|$)")
_PORTS = {"http": 80, "https": 443}


class NoGateway(Exception):
    """What is given is no gateway. (The errors of this package load much, and an agent pays for that.)"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway."""

    scheme: str
    host: str
    port: int
    before: str = field(default="", repr=False)
    """What stands before its own paths: `/token/TOKEN`, `/run/NAME`, or both."""
    token: str = field(default="", repr=False)
    """What it asks for in a header; empty where it asks for none, or the path has it."""
    is_of_command: bool = False
    """Whether it was begun for a command, which is the run."""

    @property
    def has_run(self) -> bool:
        """Whether all that comes to it from here is of one run: that of the command, or the one in the path."""
        return self.is_of_command or "/run/" in self.before

    def is_origin_of(self, url: str) -> bool:
        """Tell whether a request to a URL goes to it."""
        try:
            return _origin(url) == (self.scheme, self.host, self.port)
        except ValueError:
            return False


def gateway_at(url: str, token: str = "", *, is_of_command: bool = False) -> Gateway:
    """Return the gateway of a base URL; raise NoGateway where that is none, without it, as a token may be in it."""
    try:
        scheme, host, port = _origin(url)
    except ValueError as error:
        raise NoGateway("the gateway has no URL like 'http://127.0.0.1:8484'") from error
    found = _BEFORE.match(urlsplit(url).path)
    before = found[0] if found else ""
    return Gateway(scheme, host, port, before, "" if before.startswith("/token/") else token, is_of_command)


def gateway_of(environment: Mapping[str, str]) -> Gateway | None:
    """Return the gateway that an environment leads to; raise NoGateway where it names what is none."""
    if url := environment.get(RECORD_VARIABLE):
        return gateway_at(url, is_of_command=True)
    if url := environment.get(GATEWAY_VARIABLE):
        return gateway_at(url, named_in(environment, TOKEN_VARIABLE))
    return None


def named_in(environment: Mapping[str, str], variable: str) -> str:
    """Return a name that an environment gives, as a header can hold it; empty where there is none."""
    name = environment.get(variable, "").strip()
    return name if name.isascii() and name.isprintable() else quote(name)


def _origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port; raise ValueError where there are none."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("no origin")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    return parts.scheme, host, parts.port or _PORTS[parts.scheme]
