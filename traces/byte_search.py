"""Look for many runs of bytes in files of any size, in one pass and bounded memory.

1. Every pattern is known by its first eight bytes; two tables of bits say which hashes of eight bytes belong to one.
2. Of each chunk all windows of eight bytes are hashed at once by numpy; the few whose bits are set are looked up exactly.
3. Chunks overlap by the longest pattern, so that a match may lie across their border.

Time hardly depends on how many patterns there are. The few patterns of less than eight bytes are searched one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

WINDOW_BYTES = 8
_LEAST_TABLE_BITS = 16
_SPARE_BITS = 4
"""A table has so many bits that at most a sixteenth are set."""
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
"""Of Fibonacci hashing, for one table each: the upper bits of a product depend on all bytes."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for."""

    data: bytes
    stands_alone: bool = False
    """Whether it counts only where no letter or digit touches it."""


class ByteSearch:
    """Patterns prepared for searching."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns = list(patterns)
        self._short: list[int] = []
        self._by_window: dict[int, list[int]] = {}
        for index, pattern in enumerate(self._patterns):
            if not pattern.data:
                raise ValueError("expected something to look for, found a pattern of no bytes")
            if len(pattern.data) < WINDOW_BYTES:
                self._short.append(index)
            else:
                window = int.from_bytes(pattern.data[:WINDOW_BYTES], "little")
                self._by_window.setdefault(window, []).append(index)
        self._reach = max((len(pattern.data) for pattern in self._patterns), default=0) + 1
        self._windows_in: Callable[[bytes], Iterator[tuple[int, int]]] = _window_finder(self._by_window)

    def find(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield (offset, number of the pattern) of all matches in what the pieces make together, in no strict order."""
        held, start = b"", 0
        fresh = 0
        """Where in `held` the places begin that were not looked at."""
        for piece in pieces:
            held += piece
            end = len(held) - self._reach
            if end > fresh:
                yield from self._matches(held, fresh, end, start)
                kept_from = end - 1 if end > 0 else 0
                held, start, fresh = held[kept_from:], start + kept_from, end - kept_from
        yield from self._matches(held, fresh, len(held), start)

    def _matches(self, data: bytes, first: int, end: int, start: int) -> Iterator[tuple[int, int]]:
        """Yield the matches that begin at places from `first` to before `end`; places are counted from `start` on."""
        for place, window in self._windows_in(data):
            if first <= place < end:
                for index in self._by_window[window]:
                    if self._is_at(index, data, place):
                        yield start + place, index
        for index in self._short:
            place = data.find(self._patterns[index].data, first)
            while 0 <= place < end:
                if self._is_at(index, data, place):
                    yield start + place, index
                place = data.find(self._patterns[index].data, place + 1)

    def _is_at(self, index: int, data: bytes, place: int) -> bool:
        pattern = self._patterns[index]
        if not data.startswith(pattern.data, place):
            return False
        after = place + len(pattern.data)
        around = data[max(place - 1, 0) : place] + data[after : after + 1]
        return not pattern.stands_alone or not any(bytes((byte,)).isalnum() for byte in around)


def _window_finder(by_window: dict[int, list[int]]) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """Return a function that yields (place, window) of all windows that a pattern begins with."""
    if not by_window:
        return lambda data: iter(())
    import numpy as np

    known = np.sort(np.fromiter(by_window, dtype=np.uint64, count=len(by_window)))
    shift = np.uint64(64 - max(_LEAST_TABLE_BITS, len(known).bit_length() + _SPARE_BITS))
    tables = []
    for multiplier in map(np.uint64, _MULTIPLIERS):
        table = np.zeros(1 << (64 - int(shift)), dtype=bool)
        table[(known * multiplier) >> shift] = True
        tables.append((multiplier, table))

    def find(data: bytes) -> Iterator[tuple[int, int]]:
        for offset in range(WINDOW_BYTES):
            count = (len(data) - offset) // WINDOW_BYTES
            if count <= 0:
                return
            places = np.arange(count)
            windows = np.frombuffer(data, dtype="<u8", count=count, offset=offset)
            for multiplier, table in tables:
                likely = np.flatnonzero(table[(windows * multiplier) >> shift])
                places, windows = places[likely], windows[likely]
            at = np.minimum(np.searchsorted(known, windows), len(known) - 1)
            for index in np.flatnonzero(known[at] == windows):
                yield offset + WINDOW_BYTES * int(places[index]), int(windows[index])

    return find
