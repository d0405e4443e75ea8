"""Read OTLP/JSON from standard input with OpenTelemetry's own reader of it, and print what it found, a span a line.

Runs in the environment that has that reader, which has no Rotoscope.
"""

from __future__ import annotations

import json
import sys

from opentelemetry.proto_json.trace.v1.trace import TracesData

for line in sys.stdin:
    for of_resource in TracesData.from_json(line).resource_spans:
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                print(
                    json.dumps(
                        [
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            (span.parent_span_id or b"").hex(),
                            span.name,
                            int(span.kind),
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            sorted(one.key for one in span.attributes),
                            len(span.events),
                            int(span.status.code) if span.status else 0,
                        ]
                    )
                )
