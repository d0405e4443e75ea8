"""Run a program whose agent is decorated and send its spans where OpenTelemetry's own variables say.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:6006 python -m examples.tracing.exporting examples.tree_of_thought

Nothing here is of Rotoscope: an agent that is decorated tells its spans to the tracer provider that its program has set.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def main(arguments: Sequence[str]) -> None:
    """Run the module that is named first, with the arguments behind it, and send all of its spans before the end."""
    if not arguments:
        raise SystemExit("python -m examples.tracing.exporting MODULE [ARGUMENTS]")
    module, *rest = arguments
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: module}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    sys.argv = [module, *rest]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
