"""The environment that leads the clients of a command through the interception."""

from __future__ import annotations

from collections.abc import Mapping

from rotoscope.proxy.intercept.hosts import Hosts

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
NO_PROXY_VARIABLES = ("NO_PROXY", "no_proxy")
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
NODE_USES_PROXY = "NODE_USE_ENV_PROXY"
"""Lets the `fetch` of Node.js, from 22.21 and 24.5 on, read the variables above."""


def proxy_of(environment: Mapping[str, str]) -> str | None:
    """Return the proxy that the clients of an environment would take to a server of `https`."""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        if environment.get(name):
            return environment[name]
    return None


def led_through(
    environment: Mapping[str, str],
    host: str,
    port: int,
    *,
    hosts: Hosts,
    asks_for: str | None = None,
    is_direct: bool = True,
) -> dict[str, str]:
    """Return an environment whose clients take a proxy for all servers; what `NO_PROXY` leaves out stays left out.

    So are servers of this machine, as an agent's own tools have, but those that are among `hosts`.
    `asks_for` is the USER:PASSWORD that the proxy wants, whose characters a URL has to allow.
    Where it is not direct, because another proxy is behind it, servers of `http` are asked through it only if they were
    asked through one before: they may be of this machine, which the other proxy cannot reach.
    """
    always = ("HTTPS_PROXY", "https_proxy")
    names = [name for name in PROXY_VARIABLES if is_direct or name in always or environment.get(name)]
    url = f"http://{asks_for}@{host}:{port}" if asks_for else f"http://{host}:{port}"
    without = _without_proxy(environment, [one for one in THIS_MACHINE if not hosts.names(one)])
    return {**environment, **dict.fromkeys(names, url), **without, NODE_USES_PROXY: "1"}


def _without_proxy(environment: Mapping[str, str], more: list[str]) -> dict[str, str]:
    """Return the variables that name hosts to which no proxy leads, in both spellings, with more hosts."""
    given = {name: environment[name] for name in NO_PROXY_VARIABLES if environment.get(name)}
    either = next(iter(given.values()), "")
    known = {name: given.get(name, either).split(",") for name in NO_PROXY_VARIABLES}
    return {
        name: ",".join([*filter(None, hosts), *(one for one in more if one not in hosts)])
        for name, hosts in known.items()
    }
