"""The usage of a response stream, which clients of chat and text completions have to ask for, and mostly do not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import orjson

from rotoscope.recorder.packing import written

_OPTIONS = re.compile(rb'"stream_options"\s*:\s*')
_MOST_BYTES = 4096
"""Options that are longer are no options."""
_MOST_PLACES = 8
"""So many places are tried, as each costs reading the body."""


def usage_asked(request: Mapping[str, Any]) -> bool:
    """Return whether a request asks for the usage of its stream."""
    options = request.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def with_usage(body: bytes, *, has_stream_options: bool) -> bytes:
    """Return the body of a stream that asks for usage; but for that it stays the client's own, byte for byte."""
    if not has_stream_options:
        end = body.rindex(b"}")
        return b"".join((memoryview(body)[:end], b',"stream_options":{"include_usage":true}', memoryview(body)[end:]))
    request: dict[str, Any] = orjson.loads(body)
    options = request.get("stream_options")
    wanted = (options if isinstance(options, dict) else {}) | {"include_usage": True}
    return _with_options(body, request | {"stream_options": wanted})


def _with_options(body: bytes, wanted: Mapping[str, Any]) -> bytes:
    """Return a body with other options; written anew where they cannot be put in the place of its own."""
    options = written(wanted["stream_options"])
    for found in islice(_OPTIONS.finditer(body), _MOST_PLACES):
        end = found.end() + _value_bytes(body[found.end() : found.end() + _MOST_BYTES])
        changed = b"".join((memoryview(body)[: found.end()], options, memoryview(body)[end:]))
        if _says(changed, wanted):
            return changed
    return written(wanted)


def _value_bytes(data: bytes) -> int:
    """Return how long the JSON value at the start of some bytes is, 0 where there is none."""
    try:
        return json.JSONDecoder().raw_decode(data.decode("latin-1"))[1]
    except (ValueError, RecursionError):
        return 0


def _says(body: bytes, wanted: Mapping[str, Any]) -> bool:
    try:
        return bool(orjson.loads(body) == wanted)
    except orjson.JSONDecodeError:
        return False
