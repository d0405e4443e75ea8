"""The usage of a response stream, which clients of chat and text completions have to ask for, and mostly do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


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
    request["stream_options"] = (options if isinstance(options, dict) else {}) | {"include_usage": True}
    return orjson.dumps(request)
