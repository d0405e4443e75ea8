"""What a process tells to the one that records its run: a forked one, or one that finds it in its environment.

It decides itself what is asked of a server besides and held back of the answer, so that it never waits for an answer
of the other one. Where that one is gone, or does not take what it is told, it is told nothing more.
"""

from __future__ import annotations

import hmac
import io
import itertools
import logging
import os
import socket
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.marks import Mark
from rotoscope.recorder.recorder import Recorder
from rotoscope.recorder.variables import PROCESS_VARIABLE, RUN_VARIABLE
from rotoscope.sdk import account
from rotoscope.sdk.calls import Calls
from rotoscope.sdk.frames import packed, written_mark
from rotoscope.sdk.keepers import RunAlone
from rotoscope.sdk.outgoing import Outgoing, Request
from rotoscope.sdk.turns import Turns
from rotoscope.traces.journal_files import JournalWriter

PATIENCE_S = 3.0
"""How long the other one may take to take what it is told."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process listens to those that it began."""

    name: str = field(repr=False)
    """The path of a socket, or behind `@` a name that is no path."""
    token: str = field(repr=False)
    pid: int
    """Of the process that listens."""

    @classmethod
    def read(cls, text: str) -> Address | None:
        """Read what stands in the environment; None where that leads nowhere, or to this process itself."""
        name, token, pid = [*text.rsplit(":", 2), "", ""][:3]
        if not (name and token and pid.isdecimal()) or int(pid) == os.getpid():
            return None
        return cls(name, token, int(pid))

    def __str__(self) -> str:
        return f"{self.name}:{self.token}:{self.pid}"

    @property
    def of_socket(self) -> str:
        """The address for `connect` and `bind`."""
        return "\0" + self.name[1:] if self.name.startswith("@") else self.name

    def is_token(self, token: object) -> bool:
        """Tell whether somebody knows the token."""
        return isinstance(token, str) and hmac.compare_digest(token.encode(), self.token.encode())


class Uplink:
    """Tells the process that records; nothing of it raises, or waits for long."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.numbers = itertools.count()
        """Of calls."""
        self._turns = Turns()
        self._socket: socket.socket | None = None
        self._is_gone = False
        self.lost = 0
        """Marks and calls that it was not told."""
        _all.add(self)

    def __repr__(self) -> str:
        return "Uplink()"

    def send(self, head: list[Any], body: bytes = b"") -> None:
        """Tell something."""
        self._turns.take(lambda: self._send(head, body), otherwise=None)

    def _send(self, head: list[Any], body: bytes) -> None:
        if not self._is_gone:
            self._try(packed(head, body))
        if self._is_gone and head[0] in ("mark", "call"):
            self.lost += 1
            account.count_at_exit("told", lambda: sum(uplink.lost for uplink in list(_all)))

    def _try(self, frame: bytes) -> None:
        try:
            if self._socket is None:
                self._socket = self._connected()
            self._socket.sendall(frame)
        except OSError as error:
            self._is_gone = True
            if self._socket is not None:
                self._socket.close()
            _log.warning("the process that records cannot be told any more (%s)", type(error).__name__)

    def _connected(self) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(PATIENCE_S)
            connected.connect(self.address.of_socket)
            connected.sendall(packed(["hello", self.address.token]))
        except BaseException:  # an interruption too: no connection may stay half used
            connected.close()
            raise
        return connected

    def begin_anew(self) -> None:
        """Connect anew, in a process that was forked."""
        self.lost = 0
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_all: weakref.WeakSet[Uplink] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for uplink in list(_all):
        uplink.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)


class KeptElsewhere:
    """A run that another process keeps."""

    def __init__(self, uplink: Uplink, run: str) -> None:
        """Take part in the run of a name, empty for that of calls outside of every agent."""
        self._uplink = uplink
        self._run = run

    def __repr__(self) -> str:
        return "KeptElsewhere()"

    def tell(self, mark: Mark) -> None:
        """Tell of a mark."""
        self._uplink.send(["mark", self._run, *written_mark(mark)])

    def call(
        self, path: str, body: bytes, *, headers: Mapping[str, str], at_s: float, asks_usage: bool
    ) -> CallElsewhere | None:
        """Tell of a request; None where its answer need not be heard."""
        decides = Recorder(JournalWriter(io.BytesIO()))
        exchange = decides.request(path, body, at_s=at_s, headers=headers, asks_usage=asks_usage)
        number = next(self._uplink.numbers)
        self._uplink.send(["call", number, self._run, path, dict(headers), at_s, asks_usage], body)
        return CallElsewhere(self._uplink, number, exchange) if exchange.listens else None

    def end(self) -> None:
        """Leave its end to the one that began it."""

    def environment(self) -> dict[str, str]:
        """Return what leads other processes there."""
        return {PROCESS_VARIABLE: str(self._uplink.address)}


class CallElsewhere:
    """A call of a run that another process keeps."""

    def __init__(self, uplink: Uplink, number: int, exchange: Exchange) -> None:
        """Tell of a call; `exchange` decides here what the client gets of its answer."""
        self._uplink = uplink
        self._number = number
        self._exchange = exchange

    def __repr__(self) -> str:
        return "CallElsewhere()"

    @property
    def body(self) -> bytes:
        """What is to be sent."""
        return self._exchange.upstream_body

    def take_back(self) -> None:
        """Tell that the server refused what was added."""
        self._uplink.send(["taken_back", self._number])
        self._exchange.take_back()

    def response(self, status: int, content_type: str, at_s: float) -> None:
        """Tell that the answer begins."""
        self._uplink.send(["response", self._number, status, content_type, at_s])
        self._exchange.response(status, at_s=at_s, content_type=content_type)

    def chunk(self, data: bytes, at_s: float) -> bytes:
        """Tell of some of it and return what the client is to get of that now."""
        self._uplink.send(["chunk", self._number, at_s], data)
        return self._exchange.chunk(data, at_s=at_s)

    def end(self, at_s: float) -> bytes:
        """Tell that it is whole and return what was still held back."""
        self._uplink.send(["end", self._number, at_s])
        return self._exchange.end(at_s=at_s)

    def failed(self, at_s: float) -> None:
        """Tell that no more will come."""
        self._uplink.send(["failed", self._number, at_s])
        self._exchange.failed(at_s=at_s)

    def cancelled(self, at_s: float) -> None:
        """Tell that the client does not wait for the rest."""
        self._uplink.send(["cancelled", self._number, at_s])
        self._exchange.cancelled(at_s=at_s)


class Joined:
    """Lets another process record this one."""

    def __init__(self, uplink: Uplink, *, run: str = "", asks_usage: bool = True) -> None:
        """Let all that has no other run be of the one of a name, empty for that of calls outside of every agent."""
        self.uplink = uplink
        self._run = RunAlone(KeptElsewhere(uplink, run), run)
        self._led_to = os.environ.get(RUN_VARIABLE, "")
        self._calls = Calls(self._run_now, asks_usage=asks_usage)

    def __repr__(self) -> str:
        return "Joined()"

    def begin_run(self) -> RunAlone:
        """Take part in the run, as whatever begins here does."""
        return self._run_now()

    def join_run(self) -> RunAlone:
        """Take part in the run."""
        return self._run_now()

    def _run_now(self) -> RunAlone:
        """Return the run that the environment leads to, which a spawned process is told after it began to record."""
        name = os.environ.get(RUN_VARIABLE, "")
        if name and name != self._led_to:
            self._led_to = name
            self._run = RunAlone(KeptElsewhere(self.uplink, name), name)
        return self._run

    def flush(self, timeout_s: float) -> None:
        """Return at once: what was told has been taken."""

    def hear(self, request: Request) -> Outgoing | None:
        """Take in a request of a client; None where it is no call."""
        return self._calls.hear(request)


def joined(environment: Mapping[str, str]) -> Joined | None:
    """Return what lets the process record that the environment leads to; None where there is none."""
    address = Address.read(environment.get(PROCESS_VARIABLE, ""))
    return None if address is None else Joined(Uplink(address), run=environment.get(RUN_VARIABLE, ""))
