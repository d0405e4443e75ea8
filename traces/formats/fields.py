"""Typed access to the JSON objects of foreign files: errors say where and what was expected, and quote no text.

A key whose value is null counts as absent.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rotoscope.traces.errors import TraceError, UnusableInput
from rotoscope.traces.model import MAX_COUNT, MAX_MILLISECONDS
from rotoscope.traces.reader import kind_of

MAX_TIME_MS = MAX_MILLISECONDS / 4
"""Of a time in a foreign file: the sum of a few of them is still a time of ours."""


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object of a foreign file and the place it stands at."""

    values: Mapping[str, Any]
    event: int | None = None
    place: str = ""
    line: int | None = None

    @classmethod
    def of(cls, value: Any, *, event: int | None = None, place: str = "", line: int | None = None) -> Fields:
        """Wrap a JSON value; raise TraceError unless it is an object."""
        if not isinstance(value, dict):
            raise TraceError(f"expected an object, found {kind_of(value)}", line=line, event=event, field=place)
        return cls(value, event, place, line)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def error(self, name: str, message: str) -> TraceError:
        """Return the error that says what is wrong with a field."""
        return TraceError(message, line=self.line, event=self.event, field=self._path(name))

    def inner(self, name: str) -> Fields:
        """Return the object that a field holds."""
        return Fields.of(self.get(name), event=self.event, place=self._path(name), line=self.line)

    def get(self, name: str) -> Any:
        """Return a value as it is; raise TraceError where it is absent."""
        value = self.values.get(name)
        if value is None:
            raise self.error(name, "required, but not there")
        return value

    def count(self, name: str, *, least: int = 0, most: int = MAX_COUNT) -> int:
        """Return an integer from `least` to `most`."""
        return self._checked_count(self.get(name), name, least, most)

    def count_or(self, name: str, default: int) -> int:
        """Return a count, `default` where it is absent."""
        return self.count(name) if name in self else default

    def optional_count(self, name: str, *, most: int = MAX_COUNT) -> int | None:
        """Return a count, None where it is absent."""
        return self.count(name, most=most) if name in self else None

    def milliseconds(self, name: str, *, unit_ms: float = 1.0) -> float:
        """Return a time or duration in milliseconds, at least 0; `unit_ms` is the length of the file's unit."""
        value = self.get(name)
        if type(value) not in (int, float):
            raise self.error(name, f"expected a number, found {kind_of(value)}")
        if not 0 <= value <= MAX_TIME_MS / unit_ms:
            most = f"{MAX_TIME_MS / unit_ms:.1e}"
            raise self.error(name, f"expected a number from 0 to {most}, found {_shown(value)}")
        return float(value * unit_ms)

    def optional_milliseconds(self, name: str, *, unit_ms: float = 1.0) -> float | None:
        """Return a time or duration in milliseconds, None where it is absent."""
        return self.milliseconds(name, unit_ms=unit_ms) if name in self else None

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.get(name)
        if not isinstance(value, str):
            raise self.error(name, f"expected a string, found {kind_of(value)}")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string, None where it is absent."""
        return self.text(name) if name in self else None

    def items(self, name: str) -> list[Any]:
        """Return a list."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.error(name, f"expected a list, found {kind_of(value)}")
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """Return a list of counts."""
        items = enumerate(self.items(name))
        return tuple(self._checked_count(item, f"{name}[{index}]", 0, MAX_COUNT) for index, item in items)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers of any size."""
        items = self.items(name)
        if set(map(type, items)) - {int}:
            index, item = next((index, item) for index, item in enumerate(items) if type(item) is not int)
            raise self.error(f"{name}[{index}]", f"expected an integer, found {kind_of(item)}")
        return tuple(items)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, the empty one where it is absent."""
        items = self.items(name) if name in self else []
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self.error(f"{name}[{index}]", f"expected a string, found {kind_of(item)}")
        return tuple(items)

    def _checked_count(self, value: Any, name: str, least: int, most: int) -> int:
        if type(value) is not int:
            raise self.error(name, f"expected an integer, found {_shown(value)}")
        if not least <= value <= most:
            raise self.error(name, f"expected an integer from {least} to {most}, found {_shown(value)}")
        return value

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def _shown(value: Any) -> str:
    """Show a number, unless it is endless, and only the kind of anything else."""
    if type(value) is float:
        return f"{value:.6g}"
    return str(value) if type(value) is int and abs(value) < 10**20 else kind_of(value)


def writable_ms(milliseconds: float) -> float:
    """Return a time that is to be written; raise UnusableInput where readers would take it for damage."""
    if milliseconds > MAX_TIME_MS:
        raise UnusableInput(f"a time of {milliseconds:.3g} ms cannot be written: at most {MAX_TIME_MS:.3g} ms can")
    return milliseconds


def derived_id(*parts: str) -> str:
    """Return 32 hexadecimal digits that depend on `parts` alone: the start of their SHA-256."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()[:32]


def trace_id_of(source: str, given: str) -> str:
    """Return the id of an imported trace: a UUID is kept, any other id might be a name and is digested."""
    try:
        if str(uuid.UUID(given)) == given.lower():
            return given.lower()
    except ValueError:
        pass
    return derived_id(source, given)


@dataclass(slots=True)
class Notes:
    """What a reader left out or had to assume, by kind, counted; kinds are ours, so nothing is quoted."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, times: int = 1) -> None:
        """Count one more of a kind."""
        if times:
            self.counts[kind] += times

    def left_out(self, fields: Fields, known: Mapping[str, str], used: Sequence[str] | frozenset[str]) -> None:
        """Count keys that are not read: those `known` under what they hold, all others together."""
        for name in fields.values:
            if name not in used and name in fields:
                self.add(known.get(name, "unknown field (dropped)"))

    def log(self, logger: logging.Logger, path: str) -> None:
        """Log all kinds in one line, if there are any."""
        if self.counts:
            kinds = ", ".join(f"{times} x {kind}" for kind, times in sorted(self.counts.items()))
            logger.warning("%s: %s", path or "trace", kinds)
