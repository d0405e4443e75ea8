"""Claim: recording costs an interception at most 1.3 times the CPU of bare mitmproxy, a request and a chunk.

Bare is `mitmdump -q` with an addon that does nothing but let answers pass as they come. It is held against `mitmdump -q`
with our script, and against `rotoscope record --intercept`, which runs mitmproxy in its own process. All take turns in
front of one upstream, with TLS on both sides, and are measured as the gateway is (benchmarks/gateway.py).

It needs mitmproxy, so it has an environment of its own.

Run: python benchmarks/intercept.py [ROUNDS]
"""

from __future__ import annotations

import itertools
import os
import ssl
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from benchmarks.claims import holds, run
from benchmarks.gateway import EVENTS_A_TURN, Client, Measured, Upstream, chunk_cost_s, listening, request_cost_s
from rotoscope.proxy import intercept

MOST = 1.3
ROUNDS = 9
UNITS = {"request": 0, "streamed request": EVENTS_A_TURN}
"""What is measured beside chunks, by how many events an answer has."""

ANNOUNCE = """
from mitmproxy import ctx

class Announces:
    def running(self):
        print(ctx.master.addons.get("proxyserver").listen_addrs()[0][1], flush=True)

addons = [Announces()]
"""
DO_NOTHING = f"""{ANNOUNCE}
class Streams:
    def responseheaders(self, flow):
        flow.response.stream = True

addons.append(Streams())
"""
SCRIPT = Path(intercept.__file__).with_name("script.py")
WAIT = 'echo "${HTTPS_PROXY##*:}"; echo "$SSL_CERT_FILE"; exec cat'
"""A command that tells where the proxy listens and whom to trust, and ends with its input."""


@dataclass(frozen=True)
class Interception:
    """A proxy in a process of its own, in front of an upstream."""

    origin: str
    port: int
    trusted: Path
    process: subprocess.Popen[str]

    def cpu_s(self) -> float:
        """Return the CPU seconds it has used since it started."""
        clock = (~self.process.pid << 3) | 2  # what clock_getcpuclockid(3) returns on Linux
        return time.clock_gettime(clock)


@dataclass(frozen=True)
class Place:
    """An upstream with TLS, and a folder for files."""

    origin: str
    folder: Path

    @property
    def host(self) -> str:
        return self.origin.removeprefix("https://")

    @property
    def authority(self) -> Path:
        return self.folder / "tests-ca-cert.pem"


def upstream_tls(folder: Path) -> ssl.SSLContext:
    """Return what a server of this machine needs, with the certificate of an authority in a folder."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from mitmproxy import certs

    certs.CertStore.create_store(folder, "tests", 2048, organization="tests", cn="authority of the upstream")
    store = certs.CertStore.from_store(folder, "tests", 2048)
    entry = store.get_cert("localhost", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], None)
    key = entry.privatekey.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "server.pem").write_bytes(entry.cert.to_pem() + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem")
    return context


def mitmdump(place: Place, name: str, script: str, *options: str) -> Interception:
    """Start mitmdump with a script of ours."""
    folder = place.folder / name
    folder.mkdir()
    (folder / "script.py").write_text(script)
    settings = [f"confdir={folder}", f"ssl_verify_upstream_trusted_ca={place.authority}"]
    process = subprocess.Popen(
        [
            *[
                str(Path(sys.executable).with_name("mitmdump")),
                "-q",
                "--listen-host",
                "127.0.0.1",
                "--listen-port",
                "0",
            ],
            *[argument for setting in settings for argument in ("--set", setting)],
            *[*options, "-s", str(folder / "script.py")],
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return Interception(place.origin, int(process.stdout.readline()), folder / "mitmproxy-ca-cert.pem", process)


def bare(place: Place) -> Interception:
    """Start mitmdump with an addon that does nothing."""
    return mitmdump(place, "bare", DO_NOTHING)


def with_script(place: Place) -> Interception:
    """Start mitmdump with the script that records."""
    ours = ["-s", str(SCRIPT), "--set", f"rotoscope_hosts={place.host}"]
    return mitmdump(place, "script", ANNOUNCE, *ours, "--set", f"rotoscope_output={place.folder / 'by script'}")


def by_command(place: Place) -> Interception:
    """Start to record a command that does nothing."""
    process = subprocess.Popen(
        [
            *[sys.executable, "-m", "rotoscope", "record", "--intercept", "--intercept-host", place.host],
            *["-o", str(place.folder / "by command"), "--", "sh", "-c", WAIT],
        ],
        env=os.environ | {"SSL_CERT_FILE": str(place.authority)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    port, trusted = process.stdout.readline(), process.stdout.readline()
    return Interception(place.origin, int(port), Path(trusted.rstrip("\n")), process)


WAYS = {"bare mitmdump": bare, "mitmdump with our script": with_script, "rotoscope record": by_command}
BARE, *RECORDING = WAYS


@contextmanager
def started(way: str, place: Place) -> Iterator[Interception]:
    """Run a proxy; check at its end that it recorded what passed, if it is one that records."""
    one = WAYS[way](place)
    try:
        yield one
    finally:
        if one.process.stdin is not None:
            one.process.stdin.close()
        else:
            one.process.terminate()
        one.process.wait()


def check_recorded(folder: Path, calls: int) -> None:
    """Raise SystemExit where fewer calls are in a trace than passed."""
    from rotoscope.traces import load

    recorded = sum(len(list(load(path).calls())) for path in folder.glob("*.trace.json"))
    if recorded != calls:
        raise SystemExit(f"{recorded} of {calls} calls were recorded, so the cost says nothing")


class Counted(Client):
    """A client that counts its calls."""

    calls = 0

    async def call(self, proxy: Measured, body: bytes, *, events: int) -> int:
        """Send one request."""
        self.calls += 1
        return await super().call(proxy, body, events=events)


async def measure(rounds: int, folder: Path) -> bool:
    """Measure all in turn, print the costs and their ratios; return whether the claims hold."""
    upstream, costs = Upstream(), defaultdict[tuple[str, str], list[float]](list)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", upstream.answer)
    async with listening(app, tls=upstream_tls(folder)) as origin, AsyncExitStack() as sessions:
        place = Place(origin, folder)
        with ExitStack() as running:
            proxies = {way: running.enter_context(started(way, place)) for way in WAYS}
            clients: dict[str, Counted] = {}
            for way, proxy in proxies.items():
                context = ssl.create_default_context(cafile=proxy.trusted)
                session = aiohttp.ClientSession(
                    proxy=f"http://127.0.0.1:{proxy.port}", connector=aiohttp.TCPConnector(ssl=context)
                )
                clients[way] = Counted(await sessions.enter_async_context(session), upstream)
            seeds = itertools.count()
            for _ in range(rounds + 1):
                for way, proxy in proxies.items():
                    for unit, events in UNITS.items():
                        cost = await request_cost_s(clients[way], proxy, next(seeds), events=events)
                        costs[way, unit].append(cost)
                    costs[way, "chunk"].append(await chunk_cost_s(clients[way], proxy, next(seeds)))
            await sessions.aclose()
        for way, name in zip(RECORDING, ("by script", "by command"), strict=True):
            check_recorded(folder / name, clients[way].calls)
    medians = {key: statistics.median(values[1:]) for key, values in costs.items()}  # the first round warms up
    verdicts = [
        holds(f"CPU a {unit}", {one: medians[one, unit] for one in (BARE, way)}, MOST)
        for unit in (*UNITS, "chunk")
        for way in RECORDING
    ]
    return all(verdicts)


if __name__ == "__main__":
    run(measure, ROUNDS)
