"""Hold JSON values against the types of the trace model: each field known, in its range, of its pattern or closed set."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

_MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")

YEAR_2000_S, YEAR_2100_S = 946_684_800, 4_102_444_800
_UNIX_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def breaches(kind: Any, value: Any) -> Iterator[tuple[str, str]]:
    """Yield path and expectation of every field that the type does not allow; nothing of the value is told."""
    try:
        _adapter(kind).validate_python(value)
    except ValidationError as error:
        known = _field_names(kind)
        expected: dict[str, list[str]] = {}
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            path, what = _path(detail["loc"], known), _expectation(detail["type"], detail["msg"])
            if what not in expected.setdefault(path, []):
                expected[path].append(what)
        for path, words in expected.items():
            yield path, " or ".join(words)


def epoch_like(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of every number that reads as a time since 1970; no count and no time of a trace comes near."""
    match value:
        case bool():
            return
        case int() | float():
            for unit, a_second in _UNIX_UNITS.items():
                if YEAR_2000_S * a_second <= abs(value) <= YEAR_2100_S * a_second:
                    yield path, f"a number that reads as a time since 1970 in {unit}"
        case list():
            for index, item in enumerate(value):
                yield from epoch_like(item, f"{path}[{index}]")
        case dict():
            for name, item in value.items():
                yield from epoch_like(item, f"{path}.{name}" if path else name)


def spelled_texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of every string whose hex digits are those of a text, which random ones are about never."""
    match value:
        case str():
            if spells_text(value):
                yield path, "hex digits that spell a text"
        case list():
            for index, item in enumerate(value):
                yield from spelled_texts(item, f"{path}[{index}]")
        case dict():
            for name, item in value.items():
                yield from spelled_texts(item, f"{path}.{name}" if path else name)


def spells_text(digits: str) -> bool:
    """Tell whether hex digits, eight bytes at a time, are small letters and spaces, or sixteen bytes what texts are of.

    Of random bytes one in 65 million is the first, one in 300 million the second.
    """
    digits = digits.replace("-", "")
    if len(digits) < 2 * SPELLED_BYTES or len(digits) % 2 or not _HEX.fullmatch(digits):
        return False
    data = bytes.fromhex(digits)
    return any(
        not data[start : start + length].strip(letters)
        for length, letters in ((SPELLED_BYTES, _LETTERS), (2 * SPELLED_BYTES, _SIGNS))
        for start in range(0, len(data) - length + 1, SPELLED_BYTES)
    )


SPELLED_BYTES = 8
_HEX = re.compile("[0-9a-f]+")
_LETTERS = b"abcdefghijklmnopqrstuvwxyz "
_SIGNS = string.ascii_letters.encode() + string.digits.encode() + b" .,:;-_/@!?'\""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _path(location: tuple[int | str, ...], known: frozenset[str]) -> str:
    """Return the path of a field; a name that is none of ours could be somebody's text."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step in known:
            path += f".{step}" if path else step
        elif not _is_tag(step):
            path += f".<name of {len(step)} characters>" if path else f"<name of {len(step)} characters>"
    return path


def _is_tag(step: str) -> bool:
    """Tell what pydantic adds to a path to say which of several types it means."""
    return step in ("int", "str", "float", "bool", "none") or step.startswith(("constrained-", "literal[", "tuple["))


def _expectation(kind: str, message: str) -> str:
    if kind in _UNKNOWN:
        return "unknown field"
    if kind in _MISSING:
        return "required, but not there"
    words = message.removeprefix("Input should be ").removeprefix("Input should ").removeprefix("String should ")
    return f"expected {words[:1].lower()}{words[1:]}"


@cache
def _field_names(kind: Any) -> frozenset[str]:
    """Return the names of the fields of a type and of all types within it."""
    names: set[str] = set()
    _gather(kind, names, set())
    return frozenset(names)


def _gather(kind: Any, names: set[str], seen: set[int]) -> None:
    if id(kind) in seen:
        return
    seen.add(id(kind))
    for name, annotation in _annotations(kind).items():
        names.add(name)
        _gather(annotation, names, seen)
    for inner in getattr(kind, "__args__", ()):
        _gather(inner, names, seen)


def _annotations(kind: Any) -> Mapping[str, Any]:
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=False)
        return {one.name: hints[one.name] for one in fields(kind)}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: one.annotation for name, one in kind.model_fields.items()}
    return {}
