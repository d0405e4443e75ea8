"""The environment that leads the clients of a command through the interception."""

from __future__ import annotations

from collections.abc import Mapping

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
NODE_USES_PROXY = "NODE_USE_ENV_PROXY"
"""Lets the `fetch` of Node.js, from 22.21 and 24.5 on, read the variables above."""


def proxy_of(environment: Mapping[str, str]) -> str | None:
    """Return the proxy that the clients of an environment would take to a server of `https`."""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        if environment.get(name):
            return environment[name]
    return None


def led_through(
    environment: Mapping[str, str], host: str, port: int, *, asks_for: str | None = None, is_direct: bool = True
) -> dict[str, str]:
    """Return an environment whose clients take a proxy for all servers; what `NO_PROXY` leaves out stays left out.

    `asks_for` is the USER:PASSWORD that the proxy wants, whose characters a URL has to allow.
    Where it is not direct, because another proxy is behind it, servers of `http` are asked through it only if they were
    asked through one before: they may be of this machine, which the other proxy cannot reach.
    """
    always = ("HTTPS_PROXY", "https_proxy")
    names = [name for name in PROXY_VARIABLES if is_direct or name in always or environment.get(name)]
    url = f"http://{asks_for}@{host}:{port}" if asks_for else f"http://{host}:{port}"
    return {**environment, **dict.fromkeys(names, url), NODE_USES_PROXY: "1"}
