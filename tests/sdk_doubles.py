"""Recordings and tracer providers for tests of the SDK."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rotoscope.recorder.marks import Mark
from rotoscope.sdk import recordings
from rotoscope.sdk.runs import Recording


class HeardRun:
    """A run that keeps what it is told."""

    name = ""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.ended = 0

    def tell(self, mark: Mark) -> None:
        self.marks.append(mark)

    def end(self) -> None:
        self.ended += 1

    def environment(self) -> dict[str, str]:
        return {}


class HeardRecording:
    """A recording in memory."""

    def __init__(self) -> None:
        self.runs: list[HeardRun] = []

    def begin_run(self) -> HeardRun:
        self.runs.append(HeardRun())
        return self.runs[-1]

    def join_run(self) -> None:
        return None

    def flush(self, timeout_s: float) -> None:
        pass


class BrokenRun(HeardRun):
    """A run of which nothing works."""

    def tell(self, mark: Mark) -> None:
        raise OSError("broken")

    def end(self) -> None:
        raise OSError("broken")


class BrokenRecording(HeardRecording):
    """A recording of which nothing works."""

    def begin_run(self) -> HeardRun:
        return BrokenRun()


@contextmanager
def recorded_by(recording: Recording | None) -> Iterator[None]:
    """Record within by a recording, or by none."""
    recordings.record_by(recording)
    try:
        yield
    finally:
        recordings.record_by(None)


@contextmanager
def provided_by(provider: trace.TracerProvider | None) -> Iterator[None]:
    """Let the process have a tracer provider within; it can be set only once by what OpenTelemetry makes public."""
    before, trace._TRACER_PROVIDER = trace._TRACER_PROVIDER, provider
    try:
        yield
    finally:
        trace._TRACER_PROVIDER = before


class Spans:
    """A provider that keeps its spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def ended(self) -> list[ReadableSpan]:
        """The spans in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.ended]

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of a name."""
        [span] = [span for span in self.ended if span.name == name]
        return span

    def parent_of(self, name: str) -> str:
        """Return the name of the parent of the one span of a name; empty where it has none."""
        parent = self.named(name).parent
        if parent is None:
            return ""
        return next((span.name for span in self.ended if id_of(span) == parent.span_id), "a span that is not there")

    def seconds(self, name: str) -> float:
        """Return how long the one span of a name took."""
        span = self.named(name)
        assert span.start_time is not None
        assert span.end_time is not None
        return (span.end_time - span.start_time) / 1e9


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return int(context.span_id)


def program(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own and return what it wrote and how it ended."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


class Dropped(SpanExporter):
    """Takes spans and keeps none."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def dropping() -> TracerProvider:
    """Return a provider that keeps nothing."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Dropped()))
    return provider
