"""mitmproxy in this process, with those of its parts alone that pass on what comes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import mitmproxy.net.tls
from mitmproxy import exceptions, master, options
from mitmproxy.addons import core, disable_h2c, next_layer, proxyauth, proxyserver, tlsconfig, upstream_auth

from rotoscope.proxy.intercept.addon import Interceptor
from rotoscope.proxy.intercept.authority import Authority
from rotoscope.proxy.intercept.harmless import OPTIONS, EndsBroken, Forgets, LeavesRoom, be_harmless
from rotoscope.proxy.intercept.hosts import Hosts
from rotoscope.proxy.intercept.modes import Mode
from rotoscope.proxy.loop_errors import kinds_of_errors_told
from rotoscope.traces.errors import UnusableInput


class OwnAuthority(tlsconfig.TlsConfig):  # type: ignore[misc]
    """Certificates by an authority that is in no file."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.certstore = authority.store

    def configure(self, updated: set[str]) -> None:
        super().configure(set(updated) - {"confdir", "certs", "key_size", "cert_passphrase"})

    def get_cert(self, conn_context: Any) -> Any:
        """Return a certificate for what the client asks for; for an address that is not also one for our own."""
        address = conn_context.server.address
        if conn_context.client.sni or not address:
            return super().get_cert(conn_context)
        return self.certstore.get_cert(address[0], [tlsconfig._ip_or_dns_name(address[0])], None)


@contextlib.asynccontextmanager
async def intercepting(
    interceptor: Interceptor, mode: Mode, authority: Authority, hosts: Hosts, client_cert: Path | None = None
) -> AsyncIterator[Sequence[tuple[str, int]]]:
    """Run mitmproxy as long as the block runs, and give the addresses at which it listens.

    Servers that ask for a certificate are shown that of `client_cert`. Raises UnusableInput when it cannot listen.
    """
    _be_silent()
    mitm = _master(interceptor, mode, authority, hosts, client_cert)
    server = mitm.addons.get("proxyserver")
    running = asyncio.Event()
    mitm.addons.add(_TellsWhenRunning(running))
    task = asyncio.create_task(mitm.run())
    try:
        await asyncio.wait([task, waiting := asyncio.create_task(running.wait())], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        asyncio.get_running_loop().set_exception_handler(kinds_of_errors_told())
        if not all(one.is_running for one in server.servers):
            raise UnusableInput(_why_not(server, mode))
        yield [address[:2] for address in server.listen_addrs()]
    finally:
        mitm.shutdown()
        await asyncio.wait([task])
        await server.servers.update([])


def _master(interceptor: Interceptor, mode: Mode, authority: Authority, hosts: Hosts, client_cert: Path | None) -> Any:
    given: dict[str, Any] = {
        "mode": [mode.spec],
        "listen_host": mode.host,
        "listen_port": mode.port,
        "upstream_auth": mode.upstream_auth,
        "proxyauth": mode.asks_for,
        "ssl_verify_upstream_trusted_ca": str(authority.trusted),
        "allow_hosts": hosts.regexes,
        "client_certs": str(client_cert) if client_cert else None,
        "upstream_cert": False,  # its names may be some that the authority is not for
        **OPTIONS,
    }
    be_harmless()
    mitm = master.Master(options.Options())
    mitm.addons.add(
        core.Core(),
        disable_h2c.DisableH2C(),
        proxyserver.Proxyserver(),
        next_layer.NextLayer(),
        OwnAuthority(authority),
        upstream_auth.UpstreamAuth(),
        proxyauth.ProxyAuth(),
        LeavesRoom(),
        EndsBroken(),
        Forgets(),
        interceptor,
    )
    try:
        mitm.options.update(**{name: value for name, value in given.items() if name in mitm.options})
    except exceptions.OptionsError as error:
        raise UnusableInput(f"mitmproxy does not take how to listen: {error}") from error
    return mitm


class _TellsWhenRunning:
    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def running(self) -> None:
        self._event.set()


def _why_not(server: Any, mode: Mode) -> str:
    if mode.is_local:
        reasons = [str(one.last_exception).partition("\n")[0].rstrip(".") for one in server.servers]
        return (
            f"local mode does not work here ({'; '.join(reasons)}): it needs mitmproxy 12, Linux 6.8 and sudo; "
            "--intercept-mode namespace does the same"
        )
    problems = [one.last_exception for one in server.servers if one.last_exception is not None]
    numbers = [problem.errno for problem in problems if isinstance(problem, OSError) and problem.errno]
    if not numbers:
        return f"cannot listen on {mode.host} port {mode.port}: {'; '.join(map(str, problems)) or 'nobody tells why'}"
    reason = os.strerror(numbers[0]).lower()
    return (
        f"cannot listen on {mode.host} port {mode.port}: {reason}; "
        f"put another one behind the mode, as in {mode.spec.partition(':')[0]}@8080"
    )


def _be_silent() -> None:
    """Let mitmproxy log nothing: what it says of a broken message repeats parts of it, and SSLKEYLOGFILE opens all."""
    mitmproxy.net.tls.log_master_secret = None
    for name in ("mitmproxy", "hpack", "h2", "asyncio"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL)
        logger.propagate = False
        logger.handlers = [logging.NullHandler()]
