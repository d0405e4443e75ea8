"""Run a program whose agent is decorated and send its spans where OpenTelemetry's own variables say.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:6006 python -m examples.tracing.exporting examples.tree_of_thought

Nothing here is of Rotoscope: an agent that is decorated tells its spans to the tracer provider that its program has set.
"""

from __future__ import annotations

import logging
import os
import runpy
import sys
from collections.abc import Sequence

try:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise SystemExit(f"{error}: install opentelemetry-exporter-otlp-proto-http, or all of '.[examples]'") from None

COMPLAINING = ("opentelemetry.exporter", "opentelemetry.sdk.trace.export", "opentelemetry.sdk._shared_internal")
"""Who logs that spans could not be sent, each time and some with a traceback."""


class Complaint(logging.Handler):
    """Says once that spans do not arrive."""

    said = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.said:
            where = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "the default endpoint, http://localhost:4318"
            print(
                f"spans do not arrive at {where}; OTEL_EXPORTER_OTLP_ENDPOINT says where a backend is", file=sys.stderr
            )
        self.said = True


def main(arguments: Sequence[str]) -> None:
    """Run the module that is named first, with the arguments behind it, and send all of its spans before the end."""
    if not arguments:
        raise SystemExit("python -m examples.tracing.exporting MODULE [ARGUMENTS]")
    module, *rest = arguments
    complaint = Complaint(logging.WARNING)
    for name in COMPLAINING:
        logging.getLogger(name).addHandler(complaint)
        logging.getLogger(name).propagate = False
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: module}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    sys.argv = [module, *rest]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ImportError as error:
        raise SystemExit(f"{module} cannot be run: {error}") from None
    finally:
        provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
