"""What the processes tell that an agent began: their calls and marks are put into its runs as if they were its own.

A thread listens at a socket that only this user can connect to, and only who knows the token is heard.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import selectors
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rotoscope.sdk import kept_here
from rotoscope.sdk.frames import Unpacking, read_mark
from rotoscope.sdk.keepers import Call, Keeper
from rotoscope.sdk.scopes import clock
from rotoscope.sdk.uplinks import Address

_log = logging.getLogger(__name__)

_PIECE_BYTES = 1 << 18
_BREATHER_S = 0.05


class Downlinks:
    """Listens to other processes."""

    def __init__(self, keeper_of: Callable[[str], Keeper | None]) -> None:
        """Listen; `keeper_of` returns who keeps the run of a name, None where it has ended.

        Raises OSError where no socket can be had, RuntimeError where no thread.
        """
        self._keeper_of = keeper_of
        self._folder = None if sys.platform == "linux" else tempfile.mkdtemp(prefix="rotoscope-")
        name = f"@rotoscope-{secrets.token_hex(16)}" if self._folder is None else f"{self._folder}/socket"
        self.address = Address(name, secrets.token_hex(16), os.getpid())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address.of_socket)
        self._socket.listen(128)
        self._socket.setblocking(False)
        self._bell, self._rung = socket.socketpair()
        self._rung.setblocking(False)
        self._waiting: list[threading.Event] = []
        self._is_closed = False
        self._selector = selectors.PollSelector()  # a process that is forked shares nothing of it
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._rung, selectors.EVENT_READ)
        self._links: dict[int, _Link] = {}
        self._thread = threading.Thread(target=self._listen, name="rotoscope-listening", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.leave()
            raise

    def __repr__(self) -> str:
        return f"Downlinks({len(self._links)} processes)"

    def settle(self, timeout_s: float) -> None:
        """Take in all that was told so far, at most for so long; where no other thread can do that, nothing."""
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return
        settled = threading.Event()
        self._waiting.append(settled)
        self._ring()
        settled.wait(timeout_s)

    def close(self) -> None:
        """Listen no more."""
        self._is_closed = True
        self._ring()
        self._thread.join(1.0)
        self.leave()
        if self._folder is not None:
            with contextlib.suppress(OSError):
                Path(self.address.name).unlink(missing_ok=True)
                Path(self._folder).rmdir()

    def leave(self) -> None:
        """Let go of the sockets, also in a process that was forked."""
        for link in self._links.values():
            link.socket.close()
        for one in (self._socket, self._bell, self._rung):
            one.close()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._bell.send(b"!")

    def _listen(self) -> None:
        while not self._is_closed:
            self._take_in(self._selector.select())
            if self._waiting:
                self._settle()

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        while ready := self._selector.select(0):
            self._take_in(ready)
        for settled in waiting:
            settled.set()

    def _take_in(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, _ in ready:
            if key.fileobj is self._socket:
                self._accept()
            elif key.fileobj is self._rung:
                with contextlib.suppress(OSError):
                    self._rung.recv(_PIECE_BYTES)
            elif not self._links[key.fd].read():
                self._selector.unregister(key.fileobj)
                self._links.pop(key.fd).close()

    def _accept(self) -> None:
        try:
            connected, _ = self._socket.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left: whoever asks will still do so in a moment
            time.sleep(_BREATHER_S)
            return
        if not _is_ours(connected):
            connected.close()
            return
        connected.setblocking(False)
        self._selector.register(connected, selectors.EVENT_READ)
        self._links[connected.fileno()] = _Link(connected, self.address, self._keeper_of)


class _Link:
    """What one process tells."""

    def __init__(self, connected: socket.socket, address: Address, keeper_of: Callable[[str], Keeper | None]) -> None:
        self.socket = connected
        self._address = address
        self._keeper_of = keeper_of
        self._unpacking = Unpacking()
        self._is_known = False
        self._calls: dict[int, Call] = {}

    def read(self) -> bool:
        """Take in what has come; return whether there may be more."""
        try:
            data = self.socket.recv(_PIECE_BYTES)
            for head, body in self._unpacking.feed(data):
                self._take(head, body)
        except BlockingIOError:
            return True
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent must not be hurt
            if not isinstance(error, OSError):
                _log.warning("what another process told could not be read (%s)", type(error).__name__)
            return False
        return bool(data)

    def close(self) -> None:
        """Take in that the process is gone; nobody waits for what it had asked."""
        self.socket.close()
        for call in self._calls.values():
            call.cancelled(clock())

    def _take(self, head: list[Any], body: bytes) -> None:
        kind, *told = head
        if not self._is_known:
            if kind != "hello" or not self._address.is_token(told[0]):
                raise PermissionError
            self._is_known = True
        elif kind == "mark":
            keeper = self._keeper_of(told[0])
            if keeper is not None:
                keeper.tell(read_mark(told[1:]))
        elif kind == "call":
            self._begin(*told, body=body)
        elif kind != "hello" and (call := self._calls.get(told[0])) is not None:
            self._go_on(call, kind, told, body)

    def _begin(
        self, number: int, run: str, path: str, headers: dict[str, str], at_s: float, asks_usage: bool, *, body: bytes
    ) -> None:
        keeper = self._keeper_of(run)
        if keeper is None:
            kept_here.lateness.count()
            return
        call = keeper.call(path, body, headers=headers, at_s=at_s, asks_usage=asks_usage)
        if call is not None:
            self._calls[number] = call

    def _go_on(self, call: Call, kind: str, told: list[Any], body: bytes) -> None:
        match kind:
            case "taken_back":
                call.take_back()
            case "response":
                call.response(told[1], told[2], told[3])
            case "chunk":
                call.chunk(body, told[1])
            case "end":
                del self._calls[told[0]]
                call.end(told[1])
            case "failed":
                del self._calls[told[0]]
                call.failed(told[1])
            case "cancelled":
                del self._calls[told[0]]
                call.cancelled(told[1])


def _is_ours(connected: socket.socket) -> bool:
    """Tell whether somebody is the same user, where the system tells; elsewhere the folder of the socket does."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())
