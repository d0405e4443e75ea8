"""What was read from JSON, written out again: not all of it can be."""

from __future__ import annotations

from typing import Any

import orjson


class NestedTooDeep(ValueError):
    """JSON was read that cannot be written: 1024 levels can be read, 254 written."""

    def __init__(self) -> None:
        super().__init__("its JSON is nested too deep")


def packed(value: Any) -> bytes:
    """Return a value as JSON with sorted keys, so that equal ones are equal bytes. Raises NestedTooDeep."""
    return _written(value, orjson.OPT_SORT_KEYS)


def written(value: Any) -> bytes:
    """Return a value as JSON with its keys in the order in which they came. Raises NestedTooDeep."""
    return _written(value, None)


def _written(value: Any, option: int | None) -> bytes:
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        raise NestedTooDeep from None
