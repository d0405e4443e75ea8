"""OpenTelemetry spans of runs: written from a trace, and the names that spans have."""
