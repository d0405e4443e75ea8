"""JSON as it comes in: whatever a client or a server sends, reading it raises nothing but what is said here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rotoscope.recorder.dialects.request import NotACall


def parsed(data: str | bytes) -> Any:
    """Return what JSON says; None when it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def parsed_body(body: bytes) -> dict[str, Any]:
    """Return the object that a request's body is, an empty one where it is something else. Raises NotACall."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NotACall("the body is not JSON") from None
    return request if isinstance(request, dict) else {}


def inner(fields: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object in a field; an empty one where there is none."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}
