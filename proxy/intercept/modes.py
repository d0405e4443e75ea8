"""The ways in which connections come to mitmproxy."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from rotoscope.proxy.door import is_loopback
from rotoscope.proxy.intercept.environment import proxy_of
from rotoscope.traces.errors import UnusableInput

_MODE = re.compile(
    r"(?P<kind>regular|transparent|namespace|local)(:(?P<data>.+?))?(@(?P<address>[^@/]+))?"
    r"|(?P<upstream>upstream):(?P<url>.+?)(@(?P<port>\d{1,5}))?"  # a URL has an @ of its own, before its host
)
_ADDRESS = re.compile(r"((?P<host>[^:]+|\[[0-9A-Fa-f:.]+\]):)?(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Mode:
    """A way, in mitmproxy's own spelling, and where it listens."""

    spec: str
    host: str = "127.0.0.1"
    port: int = 0
    upstream_auth: str | None = field(default=None, repr=False)
    """USER:PASSWORD of the proxy behind."""
    behind: str | None = field(default=None, repr=False)
    """The URL of the proxy behind."""
    asks_for: str | None = field(default=None, repr=False)
    """USER:PASSWORD that clients have to bring, lest everybody on this machine goes on with those of the proxy behind."""
    makes_namespace: bool = False
    """Whether the command runs in a network namespace, whose connections are led there."""

    @property
    def is_asked(self) -> bool:
        """Whether clients have to be told of it, because they ask it as their proxy."""
        return self.spec.startswith(("regular", "upstream"))

    @property
    def is_local(self) -> bool:
        """Whether the system hands over the connections of programs."""
        return self.spec.startswith("local")


def chosen_mode(given: str, environment: Mapping[str, str]) -> Mode:
    """Read a mode, as `KIND`, `KIND:DATA` and either with `@PORT` or `@HOST:PORT`, or as `upstream:URL` or with `@PORT`.

    Where the environment names a proxy, `regular` goes through that one. Raises UnusableInput.
    """
    match = _MODE.fullmatch(given)
    if match is None:
        raise UnusableInput(
            "there is no such mode of interception: expected regular, namespace, transparent, local or upstream:URL, "
            "with @PORT behind it or not, and but for upstream with @HOST:PORT"
        )
    kind, data = match["kind"] or match["upstream"], match["data"] or match["url"]
    if (data and kind not in ("local", "upstream")) or (kind == "namespace" and match["address"]):
        raise UnusableInput(f"there is nothing to say of {kind} mode: leave out what is behind its name")
    if kind == "local" and not data:
        raise UnusableInput(
            "local mode alone would be about every program of this machine: name those that are recorded, "
            "as in local:claude,node"
        )
    if kind == "transparent" and not match["address"]:
        raise UnusableInput(
            "transparent mode is for connections that you lead to it: name the place, as in transparent@172.30.0.1:8443; "
            "namespace leads them itself"
        )
    if kind == "namespace":
        return Mode("transparent", makes_namespace=True)
    host, port = _address(match["address"] or match["port"])
    if kind == "regular" and not is_loopback(host):
        raise UnusableInput(f"in {kind} mode {host} would be a proxy for everybody: listen on 127.0.0.1")
    behind = data if kind == "upstream" else proxy_of(environment) if kind == "regular" else None
    if behind:
        return _behind(behind, host, port)
    return Mode(f"{kind}:{data}" if data else kind, host, port)


def _address(text: str | None) -> tuple[str, int]:
    if text is None:
        return "127.0.0.1", 0
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise UnusableInput(f"{text!r} is no place to listen: expected PORT or HOST:PORT")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


def _behind(url: str, host: str, port: int) -> Mode:
    """Return the mode in which everything goes on to another proxy."""
    parsed = urlsplit(url if "//" in url else f"http://{url}")
    if parsed.scheme not in ("http", "https") or not parsed.hostname or not _has_port(parsed):
        raise UnusableInput("the proxy to go through is none of HTTP: give one like 'http://proxy.example.com:3128'")
    auth = asks_for = None
    if parsed.username is not None:
        auth = f"{unquote(parsed.username)}:{unquote(parsed.password or '')}"
        asks_for = f"rotoscope:{secrets.token_hex(16)}"
    address = parsed.netloc.rpartition("@")[2]
    return Mode(f"upstream:{parsed.scheme}://{address}", host, port, auth, parsed.geturl(), asks_for)


def _has_port(parsed: SplitResult) -> bool:
    """Tell whether the port of a URL, if it has one, is a port."""
    try:
        return parsed.port != 0
    except ValueError:
        return False
