"""OpenTelemetry spans of runs: written from a trace, and read as one, whoever wrote them."""
