"""Gateways that agents tell something, and agents in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from event_loops import GUARD_S
from forked_programs import run_forked
from sdk_worlds import serving_from_a_thread


@dataclass(frozen=True)
class Told:
    """Something that came."""

    path: str
    run: str
    token: str
    body: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """The names of the tools, and other marks by their kind."""
        return [mark.get("name") or mark["mark"] for mark in self.body.get("marks", ())]


@dataclass
class HeardGateway:
    """A gateway that keeps what it is told, and answers as it is asked to."""

    statuses: Callable[[int], int] = lambda number: 200
    """The status of the answer to each request, from 0; 0 breaks the connection off."""
    held: threading.Event | None = None
    """The first request is answered when this is set."""
    origin: str = ""
    told: list[Told] = field(default_factory=list)
    requests: int = 0
    first_came: threading.Event = field(default_factory=threading.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        number, self.requests = self.requests, self.requests + 1
        self.first_came.set()
        if number == 0 and self.held is not None:
            await asyncio.to_thread(self.held.wait, GUARD_S)
        status = self.statuses(number)
        if not status:
            assert request.transport is not None
            request.transport.abort()
        if status == 200:
            headers = request.headers
            run, token = headers.get("x-rotoscope-run", ""), headers.get("x-rotoscope-token", "")
            self.told.append(Told(request.path, run, token, json.loads(body or b"{}")))
        return web.json_response({"taken": 0}, status=status or 500)

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.told]

    @property
    def names(self) -> list[str]:
        return [name for one in self.told for name in one.names]


@contextlib.contextmanager
def heard_gateway(**how: Any) -> Iterator[HeardGateway]:
    """Run such a gateway in a thread of its own."""
    gateway = HeardGateway(**how)
    with serving_from_a_thread(gateway.answer) as gateway.origin:
        yield gateway


START = """
import logging, os, sys
logging.basicConfig(format="%(message)s", stream=sys.stderr)
from rotoscope import current_run, instrument, parallel, trace_agent, trace_tool
from rotoscope.sdk import recordings
@trace_tool
def tool(): pass
def agent_of(name):
    @trace_agent
    def agent(): trace_tool(name=name)(lambda: None)()
    return agent
"""


def agent_process(source: str, *arguments: str, environment: Mapping[str, str] = {}) -> subprocess.Popen[str]:
    """Run a script that has agents."""
    command = [sys.executable, "-c", START + source, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env={**os.environ, **environment}, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1
    )


def ran(source: str, *arguments: str, environment: Mapping[str, str] = {}) -> tuple[str, str]:
    """Run a script that has agents to its end; return what it printed on both streams."""
    done = run_forked(START + source, *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def marks_of(told: Sequence[Told], kind: str) -> list[dict[str, Any]]:
    """Return the marks of one kind."""
    return [mark for one in told for mark in one.body.get("marks", ()) if mark["mark"] == kind]
