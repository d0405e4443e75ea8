"""Builders of agentic Mooncake files of version 2: each states only what matters to a test."""

from __future__ import annotations

from typing import Any

from mooncake_files import Json, lines, prompt

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_plays import read_plays
from rotoscope.traces.formats.source import Source

BLOCK = 64
HEADER: Json = {
    "schema": "dynamo.agentic_mooncake",
    "version": 2,
    "block_size": BLOCK,
    "hash_id_scope": "local",
    "source": {"format": "weka", "digest": "d"},
}


def edge(request: object, delay_ms: object = 0, trigger: object = "completion", relation: object = "sequence") -> Json:
    """What a request waits for."""
    return {"request_id": request, "trigger": trigger, "delay_ms": delay_ms, "relation": relation}


def request(
    name: object,
    session: object,
    *blocks: int,
    at_ms: object = 0,
    after: object = (),
    took_ms: object = None,
    **more: Any,
) -> Json:
    """A row; keys whose value is None are left out."""
    fields = {
        "request_id": name,
        "play_id": "p",
        "session_id": session,
        "model": "m",
        **prompt(*blocks, block=BLOCK),
        "output_length": 10,
        "not_before_ms": at_ms,
        "recorded_api_time_ms": took_ms,
        "dependencies": after,
        **more,
    }
    return {key: value for key, value in fields.items() if value is not None}


def read(*rows: object, header: object = HEADER, fidelity: Fidelity | None = None) -> list[Member]:
    source = Source.of_bytes(lines(header, *rows), "x")
    return read_plays(source, Fidelity() if fidelity is None else fidelity)
