"""The user's own exporter sends the spans of a decorated agent: what arrives is decoded by OpenTelemetry's own library."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

ROOT = Path(__file__).parents[3]
AGENT = """
from rotoscope import parallel, trace_agent, trace_tool

@trace_tool
def search(query):
    return query

@trace_agent(name="researcher")
def main(question):
    with parallel("look") as fan:
        for _ in range(2):
            with fan.branch("reader"):
                search(question)

main("a secret question")
"""


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a receiver of OTLP over HTTP, and what it gets."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join()


def test_the_spans_of_an_agent_arrive_without_a_word_of_it(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)

    with receiver() as (url, bodies):
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT, ROOT / "src"))),
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, "-m", "examples.tracing.exporting", "agent"]
        done = subprocess.run(command, env=variables, cwd=tmp_path, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    spans = [span for body in bodies for span in spans_in(body)]
    assert sorted(span.name for span in spans) == [
        "branch reader",
        "branch reader",
        *["execute_tool search"] * 2,
        "invoke_agent researcher",
        "parallel look",
    ]
    assert not any(b"secret" in body for body in bodies)


def spans_in(body: bytes) -> Iterator[Span]:
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        assert {one.key: one.value.string_value for one in of_resource.resource.attributes}["service.name"] == "agent"
        for of_scope in of_resource.scope_spans:
            yield from of_scope.spans


def exported(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src"))), **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_backend_that_does_not_answer_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from examples.tracing.exporting import main; main(['agent'])"

    done = exported(run, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="0.1")

    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("spans do not arrive at http://127.0.0.1:9; ")


def test_packages_that_are_missing_are_named_in_one_line() -> None:
    no_exporter = exported("import sys; sys.modules['opentelemetry'] = None; import examples.tracing.exporting")
    no_agent = exported("from examples.tracing.exporting import main; main(['no_such_agent'])")

    assert (no_exporter.returncode, no_agent.returncode) == (1, 1)
    assert "install opentelemetry-exporter-otlp-proto-http" in no_exporter.stderr
    assert "no_such_agent cannot be run: " in no_agent.stderr
    assert len(no_exporter.stderr.splitlines()) == len(no_agent.stderr.splitlines()) == 1
