"""Write traces: one JSON object, header keys first, one shared prefix and one event a line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from rotoscope.traces.model import (
    FORMAT_NAME,
    FORMAT_VERSION,
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)

EVENT_TYPES: dict[type[TraceEvent], str] = {
    Message: "message",
    Call: "message",
    Embedding: "embedding",
    ToolCall: "tool_call",
    Wait: "wait",
    ParallelStart: "parallel_start",
    ParallelEnd: "parallel_end",
    DropKvCache: "drop_kv_cache",
}

_ALWAYS = {"branch_path", "reasoning_tokens", "finish_reason", "of"}
"""Fields that are written even when they hold their default: other readers of the vocabulary expect them."""


def dumps(trace: Trace) -> bytes:
    """Return the trace as the bytes of its file; the same trace gives the same bytes."""
    header = {"format": {"name": FORMAT_NAME, "version": FORMAT_VERSION}, **record(trace)}
    shared = header.pop("shared_prefixes", [])
    events = header.pop("events", [])
    lines = [b"%b: %b" % (orjson.dumps(key), orjson.dumps(value)) for key, value in header.items()]
    lines.append(b'"shared_prefixes": ' + _list_of_lines(shared))
    lines.append(b'"events": ' + _list_of_lines(events))
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def save(trace: Trace, path: str | Path) -> None:
    """Write the trace to `path`, whole or not at all."""
    write_whole(Path(path), dumps(trace))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name in its folder and rename it, so that no reader sees a part of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:  # an interruption too: no half of it may stay
        os.unlink(temporary)
        raise


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of the data to a file that may be unbuffered: such a one takes a part without a word when the disk fills.

    Raises OSError.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def record(value: Any) -> Any:
    """Return a value of the trace model as plain JSON types, without fields that hold their default."""
    if isinstance(value, tuple):
        return [record(item) for item in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    out: dict[str, Any] = {}
    kind = type(value)
    if kind in EVENT_TYPES:
        out["event_type"] = EVENT_TYPES[kind]
        if kind is Call:
            out["role"] = "assistant"
    for field in _fields(kind):
        item = getattr(value, field.name)
        if field.name in _ALWAYS or item != field.default:
            out[field.name] = record(item)
    return out


@cache
def _fields(kind: type) -> tuple[Field[Any], ...]:
    return fields(kind)


def _list_of_lines(items: Iterable[Any]) -> bytes:
    lines = [b" " + orjson.dumps(item) for item in items]
    return b"[\n" + b",\n".join(lines) + b"\n]" if lines else b"[]"
