"""Phoenix, an open tracing backend, on free ports of loopback for the length of a `with`.

It takes OTLP as protobuf over HTTP and gRPC, and tells over HTTP what it has. It keeps its database in the folder it is
given, asks nothing of the network, and takes up to a minute to start for the first time.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 180.0
_POLL_S = 0.2
_LOOPBACK = "127.0.0.1"
_PROJECT = "default"
_MOST_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event of a span, as it is stored."""

    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpan:
    """A span as it is stored; ids are hexadecimal."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    shown_as: str
    """What Phoenix takes it for: `AGENT`, `LLM`, `TOOL`, ..."""
    status: str
    start: str
    """ISO 8601."""
    end: str
    attributes: Mapping[str, Any]
    events: Sequence[StoredEvent] = field(default=())


@dataclass(frozen=True, slots=True)
class Phoenix:
    """One that runs."""

    url: str

    def send(self, data: bytes) -> int:
        """Send spans as protobuf and return the status of the answer."""
        request = urllib.request.Request(
            f"{self.url}/v1/traces", data, {"content-type": "application/x-protobuf"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return int(response.status)

    def spans(self, expected: int = 1) -> list[StoredSpan]:
        """Return its spans, oldest first, once there are as many; what it takes it stores a moment later."""
        end_s = time.monotonic() + PATIENCE_S
        while len(found := list(self._spans())) < expected:
            if time.monotonic() > end_s:
                raise TimeoutError(f"Phoenix has {len(found)} spans and not {expected}")
            time.sleep(_POLL_S)
        return sorted(found, key=lambda span: (span.start, span.end))

    def _spans(self) -> Iterator[StoredSpan]:
        cursor = ""
        while True:
            page = self._get(f"/v1/projects/{_PROJECT}/spans?limit={_MOST_AT_ONCE}{cursor}")
            yield from map(_stored, page["data"])
            if not page["next_cursor"]:
                return
            cursor = f"&cursor={page['next_cursor']}"

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:  # the project is there from its first span on
                return {"data": [], "next_cursor": None}
            raise


@contextmanager
def running(program: Path, folder: Path) -> Iterator[Phoenix]:
    """Start Phoenix by its program `phoenix`, with its database and log in `folder`, and end it afterwards."""
    port, grpc_port = free_ports(2)
    variables = {
        "PHOENIX_HOST": _LOOPBACK,
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    log = folder / "phoenix.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [program, "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | variables,
        ) as process,
    ):
        try:
            phoenix = Phoenix(f"http://{_LOOPBACK}:{port}")
            _wait_until_it_answers(phoenix, process, log)
            yield phoenix
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on at the moment."""
    probes = [socket.create_server((_LOOPBACK, 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _wait_until_it_answers(phoenix: Phoenix, process: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{phoenix.url}/healthz", timeout=PATIENCE_S):
            return
        time.sleep(_POLL_S)
    raise RuntimeError(f"Phoenix does not answer; its log is {log}")


def _stored(span: Mapping[str, Any]) -> StoredSpan:
    return StoredSpan(
        trace_id=span["context"]["trace_id"],
        span_id=span["context"]["span_id"],
        parent_id=span["parent_id"],
        name=span["name"],
        shown_as=span["span_kind"],
        status=span["status_code"],
        start=span["start_time"],
        end=span["end_time"],
        attributes=span["attributes"],
        events=tuple(StoredEvent(event["name"], event["attributes"]) for event in span["events"]),
    )
