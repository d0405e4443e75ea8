"""Spans of a decorated agent in a tracing backend."""
