"""A network namespace for a command, whose connections to the ports of inference hosts are led to mitmproxy.

It is joined to the host by a pair of interfaces, and all else that the command says goes its way by address translation.
What is changed on the host is: one interface, a few rules of iptables that bear the name of the namespace, and
`net.ipv4.ip_forward` where it was off. All of it is taken back at the end; what a recording that was killed has left
behind, the next one takes away.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rotoscope.proxy.intercept.caller import as_root, caller_of_sudo, home_of, may_be_root
from rotoscope.traces.errors import UnusableInput

PORTS = (80, 443)
"""Where connections are led to mitmproxy, besides the ports of hosts that are opened."""

_NAME = re.compile(r"rotoscope-(?P<pid>\d+)")
_STATE = Path("/run/rotoscope")
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_OF_NAMESPACES = Path("/etc/netns")
_NETWORKS = ipaddress.IPv4Network("198.18.0.0/15")
"""Addresses that are nobody's (RFC 2544)."""
_OF_ROOT = ":/usr/local/sbin:/usr/sbin:/sbin"
"""Where programs of root are, besides what PATH names."""
_RESOLVERS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, as it is seen from the host."""

    name: str
    interface: str
    network: ipaddress.IPv4Network

    @property
    def outside(self) -> str:
        """The address of the host."""
        return str(self.network[1])

    @property
    def inside(self) -> str:
        """The address of the command."""
        return f"{self.network[2]}/{self.network.prefixlen}"

    def entered(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return a command that runs inside, as who called sudo, and its environment. Raises UnusableInput."""
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise UnusableInput(f"the command {command[0]!r} cannot be started: no such file or directory")
        entering = [_program("ip"), "netns", "exec", self.name]
        caller = caller_of_sudo(environment)
        if caller is None:
            return [*entering, *command], dict(environment)
        entering += [_program("setpriv"), f"--reuid={caller.pw_uid}", f"--regid={caller.pw_gid}", "--init-groups", "--"]
        return [*entering, *command], {**environment, **home_of(caller)}

    def lead_to(self, port: int, ports: Sequence[int]) -> None:
        """Lead connections from inside to a port of the host's. Raises UnusableInput."""
        to_us = ("-p", "tcp", "--dport", str(port))
        with as_root():
            self._add("filter", "INPUT", "-d", self.outside, *to_us, "!", "-i", self.interface, "-j", "DROP")
            self._add("filter", "INPUT", "-i", self.interface, *to_us, "-j", "ACCEPT")
            for led in ports:
                of_them = ("-i", self.interface, "-p", "tcp", "--dport", str(led))
                self._add("nat", "PREROUTING", *of_them, "-j", "REDIRECT", "--to-ports", str(port))

    def make(self) -> None:
        """Make it, and join it to the host. Raises UnusableInput."""
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self.interface, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _run("ip", "address", "add", f"{self.outside}/{self.network.prefixlen}", "dev", self.interface)
        _run("ip", "link", "set", self.interface, "up")
        within = ("ip", "-n", self.name)
        _run(*within, "link", "set", "lo", "up")
        _run(*within, "address", "add", self.inside, "dev", "eth0")
        _run(*within, "link", "set", "eth0", "up")
        _run(*within, "route", "add", "default", "via", self.outside)
        out = ("-i", self.interface)
        self._add("filter", "FORWARD", *out, "-j", "ACCEPT")
        self._add("filter", "FORWARD", "-o", self.interface, *_ANSWERS, "-j", "ACCEPT")
        self._add("nat", "POSTROUTING", "-s", str(self.network), "!", "-o", self.interface, "-j", "MASQUERADE")
        self._give_names()

    def _give_names(self) -> None:
        """Let names be resolved inside, also where the host asks a resolver of its own loopback."""
        text, loopback = resolvers(_RESOLVERS)
        folder = _OF_NAMESPACES / self.name
        if loopback is None and text == _contents(Path("/etc/resolv.conf")):
            return
        folder.mkdir(parents=True)
        if loopback is None:
            (folder / "resolv.conf").write_text(text)
            return
        (folder / "resolv.conf").write_text(f"nameserver {self.outside}\n")
        Path(f"/proc/sys/net/ipv4/conf/{self.interface}/route_localnet").write_text("1")
        for protocol in ("udp", "tcp"):
            asked = ("-i", self.interface, "-p", protocol, "--dport", "53")
            self._add("filter", "INPUT", *asked, "-j", "ACCEPT")
            self._add("nat", "PREROUTING", *asked, "-d", self.outside, "-j", "DNAT", "--to-destination", loopback)

    def _add(self, table: str, chain: str, *rule: str) -> None:
        _run("iptables", "-w", "-t", table, "-I", chain, "1", *rule, "-m", "comment", "--comment", self.name)


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    """Have a namespace for as long as the block runs. Raises UnusableInput where none can be made."""
    _need_what_it_takes()
    with _alone():
        _take_away_leftovers()
        made = Namespace(f"rotoscope-{os.getpid()}", f"rs{os.getpid()}", _free_network())
    try:
        with _alone():
            made.make()
            _forward()
        yield made
    finally:
        with _alone():
            _take_away(made.name)


_ANSWERS = ("-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED")


def _need_what_it_takes() -> None:
    if not may_be_root():
        raise UnusableInput(
            "--intercept-mode namespace needs root, to make a network namespace: "
            "call it by sudo -E; the command runs as yourself all the same"
        )
    missing = [program for program in ("ip", "iptables", "iptables-save") if _program(program) == program]
    if missing:
        raise UnusableInput(f"--intercept-mode namespace needs {' and '.join(missing)}: install iproute2 and iptables")


def _program(name: str) -> str:
    """Return where a program is, also if it is where a person's PATH does not lead; its name where it is nowhere."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}{_OF_ROOT}") or name


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Be root, and let no other recording make or take away a namespace meanwhile."""
    with as_root():
        _STATE.mkdir(mode=0o700, exist_ok=True)
        with open(_STATE / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _forward() -> None:
    """Let the host pass packets on, and remember that it did not."""
    if _FORWARD.read_text().strip() == "0":
        (_STATE / "ip_forward").write_text("0")
        _FORWARD.write_text("1")


def _take_away(name: str) -> None:
    """Take away all that there is of a namespace, as far as it is there."""
    for table in ("nat", "filter"):
        for line in _out("iptables-save", "-t", table).splitlines():
            words = line.replace('"', "").split()
            if words[:1] == ["-A"] and name in words:
                _out("iptables", "-w", "-t", table, "-D", *words[1:])
    _out("ip", "link", "delete", name.replace("rotoscope-", "rs"))
    _out("ip", "netns", "delete", name)
    shutil.rmtree(_OF_NAMESPACES / name, ignore_errors=True)
    if not _names():
        remembered = _STATE / "ip_forward"
        if remembered.exists():
            _FORWARD.write_text(remembered.read_text())
            remembered.unlink()


def _take_away_leftovers() -> None:
    """Take away the namespaces of recordings that were killed."""
    for name in _names():
        match = _NAME.fullmatch(name)
        if match is not None and not Path("/proc", match["pid"]).exists():
            _take_away(name)


def _names() -> list[str]:
    """Return the names of the namespaces of recordings."""
    lines = _out("ip", "netns", "list").splitlines()
    return [line.split()[0] for line in lines if line and _NAME.fullmatch(line.split()[0])]


def _free_network() -> ipaddress.IPv4Network:
    """Return four addresses that lead nowhere on this machine."""
    words = _out("ip", "-4", "route", "show", "table", "all").split() + _out("ip", "-4", "address").split()
    taken = [found for word in words if (found := _network(word)) is not None and found.prefixlen > 0]
    for candidate in _NETWORKS.subnets(new_prefix=30):
        if not any(candidate.overlaps(one) for one in taken):
            return candidate
    raise UnusableInput(f"--intercept-mode namespace needs four free addresses of {_NETWORKS}: all of them are routed")


def _network(word: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(word, strict=False)
    except ValueError:
        return None


def resolvers(files: Sequence[Path]) -> tuple[str, str | None]:
    """Return the first text that names a resolver beyond loopback, else a resolver of the loopback."""
    servers: list[str] = []
    for path in files:
        text = _contents(path)
        servers = re.findall(r"^nameserver\s+(\S+)", text, re.MULTILINE)
        if any(not server.startswith("127.") and server != "::1" for server in servers):
            return text, None
    return "", next((server for server in servers if server.startswith("127.")), None)


def _contents(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _run(*command: str) -> None:
    """Run a program that has to succeed; signals of the terminal are not for it. Raises UnusableInput."""
    done = subprocess.run(
        [_program(command[0]), *command[1:]], check=False, capture_output=True, text=True, start_new_session=True
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["it does not say why"]
        raise UnusableInput(f"no network namespace can be made: {' '.join(command[:3])}: {reason[0]}")


def _out(*command: str) -> str:
    """Return what a program says; nothing where it fails."""
    command = (_program(command[0]), *command[1:])
    return subprocess.run(command, check=False, capture_output=True, text=True, start_new_session=True).stdout
