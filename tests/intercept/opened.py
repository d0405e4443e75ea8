"""Interception in the event loop of a test, with a recorder behind it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from intercept.asking import Connection, connected
from intercept.fronts import Front
from loopback import PATIENCE_S, OneRun

from rotoscope.proxy.intercept.addon import Interceptor
from rotoscope.proxy.intercept.again import sending_again
from rotoscope.proxy.intercept.authority import Authority, authority
from rotoscope.proxy.intercept.environment import led_through
from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts
from rotoscope.proxy.intercept.interception import intercepting
from rotoscope.proxy.intercept.modes import chosen_mode
from rotoscope.recorder.recorded_run import Run
from rotoscope.recorder.recorder import Recorder
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.model import Call


@dataclass
class Opened:
    """A proxy that opens what it is asked to, and what it said."""

    proxy: str
    authority: Authority
    interceptor: Interceptor
    notices: list[str]
    front: Front
    _recorder: Recorder

    async def calls(self) -> list[Call]:
        """End the recording; return its calls."""
        await self.interceptor.stop(drain_s=PATIENCE_S)
        trace = self._recorder.close()
        return list(trace.calls()) if trace else []

    @property
    def variables(self) -> dict[str, str]:
        """What a client's environment needs to be led through here."""
        host, port = self.proxy.removeprefix("http://").rsplit(":", 1)
        return led_through(self.authority.variables, host, int(port), hosts=chosen_hosts(["localhost"]))

    def connected(self, version: str) -> contextlib.AbstractAsyncContextManager[Connection]:
        """Connect to the front through the proxy, as a client that trusts its authority."""
        return connected(self.front.url, version, trusted=self.authority.certificate, proxy=self.proxy)

    def connected_closed(self, version: str = "1.1") -> contextlib.AbstractAsyncContextManager[Connection]:
        """Connect to the front through the proxy, as a client that trusts the front's authority alone."""
        return connected(self.front.url, version, trusted=self.front.certificates.authority, proxy=self.proxy)


@contextlib.asynccontextmanager
async def opened(
    front: Front,
    journal: Path,
    *,
    hosts: Hosts | None = None,
    mode: str = "regular",
    environment: Mapping[str, str] | None = None,
    trusts_the_front: bool = True,
    client_cert: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Opened]:
    """Open connections to the front, or to other hosts."""
    notices: list[str] = []
    recorder = Recorder(JournalWriter(journal))
    chosen = chosen_hosts([f"localhost:{front.port}"]) if hosts is None else hosts
    how = chosen_mode(mode, environment or {})
    known = {"SSL_CERT_FILE": str(front.certificates.authority)} if trusts_the_front else {}
    with authority(known, hosts=chosen) as trusted:
        async with sending_again(str(trusted.trusted), how.behind, client_cert) as again:
            interceptor = Interceptor(OneRun(Run(recorder)), chosen, notice=notices.append, again=again, clock=clock)
            try:
                async with intercepting(interceptor, how, trusted, chosen, client_cert) as addresses:
                    host, port = addresses[0]
                    user = f"{how.asks_for}@" if how.asks_for else ""
                    yield Opened(f"http://{user}{host}:{port}", trusted, interceptor, notices, front, recorder)
            finally:
                recorder.close()
