"""Header bytes that are no UTF-8, such as `é` in Latin-1: aiohttp leaves them out, here they are written as they came.

It reads such a byte as a lone surrogate, and its writer drops those. What is set right here is a seam that has no public
form; should it go, the bytes are dropped again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aiohttp import http_writer

_writer: Any = http_writer
_as_aiohttp_does = _writer._serialize_headers
_FORBIDDEN = re.compile(r"[\r\n\0]")


def keep_odd_bytes() -> None:
    """Let aiohttp write all header bytes in this process; what is UTF-8 stays as it is."""
    _writer._serialize_headers = serialized


def serialized(status_line: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a message. Raises ValueError where a line would end early."""
    lines = [status_line, *(f"{name}: {value}" for name, value in headers.items())]
    if all(map(str.isascii, lines)):
        return bytes(_as_aiohttp_does(status_line, headers))
    if any(map(_FORBIDDEN.search, lines)):
        raise ValueError("a header line ends early")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
