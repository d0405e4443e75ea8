"""Random edits of an input, in its bytes and in the values of its JSON."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Edit = Callable[[bytes, random.Random], bytes]


def edited(data: bytes, chance: random.Random, edits: Sequence[Edit]) -> bytes:
    """Return an input after one to four edits; an edit that comes several times is made more often."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        data = chance.choice(edits)(data, chance)
    return data


def edit_bytes(data: bytes, chance: random.Random, *, written: Sequence[bytes]) -> bytes:
    """Take some bytes out and put nothing, any byte or one of `written` in their place."""
    place = chance.randrange(len(data) + 1)
    stop = min(place + chance.choice((0, 1, 1, 3, 20)), len(data))
    inserted = chance.choice((b"", b"", chance.randbytes(1), *written))
    return data[:place] + inserted + data[stop:]


def cut(data: bytes, chance: random.Random) -> bytes:
    """Leave the end out."""
    return data[: chance.randrange(len(data) + 1)]


def change_value(document: Any, chance: random.Random, *, names: Sequence[str], values: Sequence[Any]) -> None:
    """Take a value out of a document, double, add or change one."""
    places = list(_places(document))
    if not places:
        return
    container, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[chance.choice(names)] = chance.choice(values)
        case 1 | 2 if isinstance(container, list):
            container.insert(key, container[key])
        case 3 if isinstance(container[key], int | float) and abs(container[key]) < 2**64:  # no float beyond 1e308
            container[key] += chance.choice((-1, 1, 64, -64, 0.5, 10**9))
        case _:
            container[key] = chance.choice(values)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, item in items:
        yield value, key
        yield from _places(item)
