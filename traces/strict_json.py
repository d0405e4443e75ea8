"""Parse JSON and notice what a lenient parser lets pass unseen, where somebody could hide a text.

A field that is named twice, of which parsers keep one; a byte order mark; NaN; numbers of more digits than any count or
time has. Comments, what stands behind the end and bytes that are no UTF-8 are no JSON at all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rotoscope.traces.errors import TraceError

LONGEST_INTEGER = 20
"""Digits of the greatest integer of 64 bits."""
LONGEST_FLOAT = 24
"""Characters of the longest float that is written with as few digits as it takes."""
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A JSON value and the oddities of how it is written, each once."""

    value: Any
    oddities: tuple[str, ...] = ()


def parse_strictly(data: bytes) -> Parsed:
    """Parse one JSON value; raise TraceError, without any of the content, where it is none."""
    odd: dict[str, None] = {}
    if data.startswith(_MARK):
        odd["begins with a byte order mark"] = None
    try:
        value = _decoder(odd).decode(data.removeprefix(_MARK).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise TraceError(f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        what = "goes on behind its end" if error.msg == "Extra data" else "is not JSON"
        raise TraceError(f"{what} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise TraceError("is nested too deeply") from None
    return Parsed(value, tuple(odd))


def _decoder(odd: dict[str, None]) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            odd["names a field of an object twice"] = None
        return found

    def integer(digits: str) -> float:
        if len(digits) > LONGEST_INTEGER:
            odd[f"has an integer of more than {LONGEST_INTEGER} digits"] = None
            return float("inf")
        return int(digits)

    def number(digits: str) -> float:
        if len(digits) > LONGEST_FLOAT:
            odd[f"has a number of more than {LONGEST_FLOAT} characters"] = None
        return float(digits)

    def constant(name: str) -> float:
        odd["has NaN or Infinity"] = None
        return float(name)

    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=integer, parse_float=number, parse_constant=constant)
