"""Change values somewhere in parsed JSON, to see how readers take it."""

from __future__ import annotations

import copy
from typing import Any

from rotoscope.traces import TraceError, dumps, loads
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.registry import Read
from rotoscope.traces.formats.source import Source

Spot = tuple[Any, Any]
"""A container and a key or index of it."""

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 3, 4, 63, 64, 2**31 - 1, 2**31, 2**53, 2**63, 10**30),
    *(0.5, -0.5, 1e12, 1e308, float("nan"), float("inf")),
    *("", "x", "A", "B", "a", "b", "-1", "stop", "tool_calls", "request_end", "tool_end", "tool_start"),
    *("2026-01-01T00:00:00Z", "2026-01-01T00:00:01", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-99-99"),
    *([], {}, [0], [1], [1, 2], [1, 2, 3], [[]], [{}], ["x"], {"x": 1}),
)


def every_place(value: Any) -> list[Spot]:
    """Return all places in a JSON value."""
    found: list[Spot] = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found.append((value, key))
        if isinstance(item, dict | list):
            found += every_place(item)
    return found


def replaced(spot: Spot, choice: int) -> None:
    """Remove what is there, or put another value in its place."""
    container, key = spot
    if choice % 7 == 0:
        del container[key]
    else:
        container[key] = copy.deepcopy(VALUES[choice // 7 % len(VALUES)])


def read_or_told(read: Read, data: bytes) -> str:
    """Read a file that may be damaged; its traces must be valid and survive a file of ours, or return the error."""
    try:
        members = read(Source.of_bytes(data, "x"), Fidelity())
    except TraceError as error:
        return str(error)
    for member in members:
        assert loads(dumps(member.trace)) == member.trace
    return ""
