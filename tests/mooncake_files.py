"""Builders of Mooncake files and of their dialects: each states only what matters to a test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import read_bailian, read_mooncake
from rotoscope.traces.formats.source import Source

Json = dict[str, Any]

BLOCK = 512


def prompt(*blocks: int, tail: int = 0, block: int = BLOCK) -> Json:
    """A prompt of whole blocks; with a tail the last one has only so many tokens."""
    return {"input_length": block * len(blocks) - (block - tail if tail else 0), "hash_ids": list(blocks)}


def row(at_ms: object, *blocks: int, tail: int = 0, out: object = 10, **more: Any) -> Json:
    """A Mooncake row; keys whose value is None are left out."""
    fields = {"timestamp": at_ms, **prompt(*blocks, tail=tail), "output_length": out, **more}
    return {key: value for key, value in fields.items() if value is not None}


def turn(session: str, *blocks: int, at_ms: object = None, delay: object = None, tail: int = 0, **more: Any) -> Json:
    """A row of AIPerf's dialect."""
    return row(at_ms, *blocks, tail=tail, session_id=session, delay=delay, **more)


def step(
    name: str, session: str | None, *blocks: int, at_ms: object = 0, after: Iterable[str] = (), **more: Any
) -> Json:
    """A row of agentic Mooncake."""
    return row(at_ms, *blocks, request_id=name, session_id=session, wait_for=list(after), **more)


def span(tool_class: str, started: object, duration: object, **more: Any) -> Json:
    """A tool event of agentic Mooncake."""
    ended = started + duration if isinstance(started, int) and isinstance(duration, int) else 0
    times = {"started_at_unix_ms": started, "ended_at_unix_ms": ended, "duration_ms": duration}
    return {"tool_call_id": "x", "tool_class": tool_class, **times, "status": "succeeded", **more}


def chat(number: object, parent: object, at_s: object, *blocks: int, tail: int = 0, **more: Any) -> Json:
    """A row of Bailian."""
    lengths = {**prompt(*blocks, tail=tail, block=16), "output_length": 10}
    fields = {"chat_id": number, "parent_chat_id": parent, "timestamp": at_s, **lengths, "type": "text", "turn": 1}
    return {key: value for key, value in {**fields, **more}.items() if value is not None}


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in rows)


def read(*rows: object, fidelity: Fidelity | None = None) -> list[Member]:
    """Read Mooncake rows of any dialect but Bailian's."""
    return read_mooncake(Source.of_bytes(lines(*rows), "x"), Fidelity() if fidelity is None else fidelity)


def read_chats(*rows: object) -> list[Member]:
    return read_bailian(Source.of_bytes(lines(*rows), "x"), Fidelity())
