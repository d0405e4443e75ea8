"""Worlds for what the SDK does in an agent's process: servers in threads of their own, and listeners to HTTP clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from event_loops import GUARD_S
from loopback import Handler, serving

from rotoscope.recorder.token_counters import Tokenizer
from rotoscope.sdk import recordings
from rotoscope.sdk.alone import Alone
from rotoscope.sdk.outgoing import Listener, Outgoing, Request
from rotoscope.sdk.transports.patching import listen
from rotoscope.traces.model import Trace
from rotoscope.traces.reader import load
from rotoscope.traces.writer import save

OF_TIMES = {"at_ms", "ttft_ms", "duration_ms", "trace_id", "campaign"}


@contextlib.contextmanager
def in_a_thread(world: AbstractAsyncContextManager[str]) -> Iterator[str]:
    """Keep an async context open in the event loop of another thread; give what it gives."""
    started, is_over = threading.Event(), asyncio.Event()
    given: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def keep() -> None:
        try:
            async with world as value:
                given.append(value)
                loops.append(asyncio.get_running_loop())
                started.set()
                await is_over.wait()
        finally:
            started.set()

    thread = threading.Thread(target=lambda: asyncio.run(keep()))
    thread.start()
    try:
        assert started.wait(GUARD_S)
        yield given[0]
    finally:
        if loops:
            loops[0].call_soon_threadsafe(is_over.set)
        thread.join(GUARD_S)


def serving_from_a_thread(handler: Handler) -> contextlib.AbstractContextManager[str]:
    """Serve every request with one handler; give the origin."""
    return in_a_thread(serving(handler))


@contextlib.contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let a listener hear the clients of this process."""
    listen(listener)
    try:
        yield
    finally:
        listen(None)


@dataclass
class Overheard:
    """A request, and what became of it."""

    request: Request
    body: bytes
    headers: dict[str, str]
    listens: bool = True
    events: list[tuple[Any, ...]] = field(default_factory=list)
    withholds: bytes = b""
    """The one piece of an answer that is not passed on."""
    _seen: bytes = b""

    def take_back(self) -> None:
        self.events.append(("take back",))

    def response(self, status: int, content_type: str) -> None:
        self.events.append(("response", status, content_type))

    def chunk(self, data: bytes) -> bytes:
        self.events.append(("chunk", data))
        return data.replace(self.withholds, b"") if self.withholds else data

    def end(self) -> bytes:
        self.events.append(("end",))
        return b""

    def failed(self) -> None:
        self.events.append(("failed",))

    def cancelled(self) -> None:
        self.events.append(("cancelled",))

    @property
    def text(self) -> bytes:
        """All of the answer that was heard."""
        return b"".join(event[1] for event in self.events if event[0] == "chunk")

    @property
    def story(self) -> list[str]:
        """What happened, without how many pieces the answer came in."""
        names = [str(event[0]) for event in self.events]
        return [name for i, name in enumerate(names) if name != "chunk" or names[i - 1] != "chunk"]


@dataclass
class Ear:
    """A listener that keeps what it hears."""

    sends: Callable[[bytes], bytes] = lambda body: body
    """What is sent of a body."""
    headers: dict[str, str] = field(default_factory=dict)
    withholds: bytes = b""
    listens: bool = True
    heard: list[Overheard] = field(default_factory=list)

    def __call__(self, request: Request) -> Outgoing | None:
        heard = Overheard(request, self.sends(request.body), dict(self.headers), self.listens, withholds=self.withholds)
        self.heard.append(heard)
        return self.heard[-1]


@contextlib.contextmanager
def recorded_alone(folder: Path, *, tokenizer: Tokenizer | None = None) -> Iterator[Alone]:
    """Record this process into a folder, without a gateway."""
    alone = Alone(folder, tokenizer=tokenizer)
    recordings.record_by(alone)
    listen(alone.hear)
    try:
        yield alone
    finally:
        listen(None)
        recordings.record_by(None)
        alone.close()


def traces_in(folder: Path) -> list[Trace]:
    """Return the traces of a folder, oldest first."""
    return [load(path) for path in sorted(folder.glob("*.trace.json"))]


def without_times(trace: Trace | None, folder: Path) -> Any:
    """Return all of a trace but its times and names; how long nothing was said is a time too."""
    if trace is None:
        return None
    save(trace, folder / "one.trace.json")
    kept = _without(json.loads((folder / "one.trace.json").read_text()))
    kept["events"] = [event for event in kept["events"] if event["event_type"] != "wait"]
    return kept


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(x) for name, x in value.items() if name not in OF_TIMES}
    return [_without(x) for x in value] if isinstance(value, list) else value
