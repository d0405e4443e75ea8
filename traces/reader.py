"""Read traces: strict, and each kind of damage is its own error with file, line, event and field."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.model import FORMAT_NAME, FORMAT_VERSION, Call, Message, Trace, TraceEvent
from rotoscope.traces.validation import validate
from rotoscope.traces.writer import EVENT_TYPES

T = TypeVar("T")

HEAD_BYTES = 4096
"""How much of a file is looked at to tell what it is."""
_LONGEST_NAME = 40

_adapters: dict[type, TypeAdapter[Any]] = {}
"""Filled on first use: building a validator costs milliseconds."""

_KINDS: dict[str, type[TraceEvent]] = {name: kind for kind, name in EVENT_TYPES.items() if kind is not Call}


def load(path: str | Path) -> Trace:
    """Read a trace file in Rotoscope's own format; raise TraceError where it is damaged or of another kind."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            if not looks_like_ours(head):
                raise TraceError(_not_ours(head), path=name)
            data = head + file.read()
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path=name) from error
    return loads(data, path=name)


def loads(data: bytes, *, path: str = "") -> Trace:
    """Read a trace from the bytes of its file; `path` is only for messages."""
    try:
        trace = _trace(parse_json(data))
        validate(trace)
    except TraceError as error:
        raise _with_line(error, data).at(path) from error.__cause__
    return normalise(trace)


def looks_like_ours(head: bytes) -> bool:
    """Say whether the beginning of a file is that of a Rotoscope trace."""
    return head.lstrip().startswith(b"{") and f'"{FORMAT_NAME}"'.encode() in head[:HEAD_BYTES]


def parse_json(data: bytes) -> Any:
    """Parse JSON; NaN and Infinity are let through, so that the field that holds them can be named."""
    if not data.strip():
        raise TraceError("expected a JSON object, found an empty file")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _parse_lenient(data)


def _parse_lenient(data: bytes) -> Any:
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        raise TraceError(f"expected UTF-8 text, found byte {data[error.start]:#04x} at {error.start}") from error
    except json.JSONDecodeError as error:
        end = len(error.doc.rstrip())
        cut_word = error.pos >= end - len("Infinity") and not error.doc.rstrip().endswith("}")
        if error.pos >= end or cut_word or error.msg.startswith("Unterminated"):
            where = f", at line {error.lineno}" if error.lineno > 1 else ""
            raise TraceError(f"the file ends in the middle{where}: truncated") from error
        where = f"line {error.lineno} column" if "\n" in error.doc.strip() else "column"
        raise TraceError(f"not JSON at {where} {error.colno}: {error.msg.lower()}") from error
    except (RecursionError, ValueError) as error:
        raise TraceError("not usable JSON: nested too deeply or a number too long") from error


def _not_ours(head: bytes) -> str:
    if not head.strip():
        return "expected a Rotoscope trace, found an empty file"
    return f"expected a Rotoscope trace (a JSON object with format name {FORMAT_NAME!r} at its beginning)"


def _trace(raw: Any) -> Trace:
    if not isinstance(raw, dict):
        raise TraceError(f"expected a JSON object, found {kind_of(raw)}")
    _check_version(raw.get("format"))
    header = {key: value for key, value in raw.items() if key not in ("format", "events")}
    events = raw.get("events")
    if not isinstance(events, list):
        raise TraceError(f"expected a list of events, found {kind_of(events)}", field="events")
    parsed = tuple(_event(event, index) for index, event in enumerate(events))
    return replace(_validated(Trace, header), events=parsed)


def _check_version(value: Any) -> None:
    if not isinstance(value, dict) or value.get("name") != FORMAT_NAME:
        raise TraceError(f"expected the name {FORMAT_NAME!r}", field="format")
    version = value.get("version")
    if type(version) is not int or version < 1:
        raise TraceError(f"expected a version from 1 to {FORMAT_VERSION}", field="format.version")
    if version > FORMAT_VERSION:
        raise TraceError(
            f"version {version} is newer than {FORMAT_VERSION}, the newest this Rotoscope reads; upgrade Rotoscope",
            field="format.version",
        )
    unknown = sorted(set(value) - {"name", "version"})
    if unknown:
        raise TraceError("unknown field", field=f"format.{_name(unknown[0])}")


def _event(raw: Any, index: int) -> TraceEvent:
    if not isinstance(raw, dict):
        raise TraceError(f"expected an object, found {kind_of(raw)}", event=index)
    name = raw.get("event_type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise TraceError(f"expected one of {', '.join(sorted(_KINDS))}", event=index, field="event_type")
    body = {key: value for key, value in raw.items() if key != "event_type"}
    if kind is Message and raw.get("role") == "assistant" and ("call" in raw or "prompt_tokens" in raw):
        kind = Call
        del body["role"]
    return _validated(kind, body, index)


def _adapter(kind: type) -> TypeAdapter[Any]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _validated(kind: type[T], body: Mapping[str, Any], event: int | None = None) -> T:
    try:
        valid: T = _adapter(kind).validate_python(body)
    except ValidationError as error:
        raise _as_trace_error(error.errors(include_url=False)[0], kind, event) from None
    return valid


def _as_trace_error(detail: ErrorDetails, kind: type, event: int | None) -> TraceError:
    where = ".".join(_name(part) for part in detail["loc"] if not str(part).startswith("constrained-"))
    if detail["type"] == "unexpected_keyword_argument":
        known = [field.name for field in fields(kind)]
        near = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        return TraceError(f"unknown field{hint}", event=event, field=where)
    if detail["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return TraceError("required, but not there", event=event, field=where)
    expectation = detail["msg"].removeprefix("Input should be ").removeprefix("Input should ")
    expectation = expectation[0].lower() + expectation[1:]
    return TraceError(f"expected {expectation}, found {_shown(detail['input'])}", event=event, field=where)


def _name(part: int | str) -> str:
    """Show a key as it is where it could be one of ours."""
    text = str(part)
    return text if len(text) <= _LONGEST_NAME and text.isprintable() else f"{text[:_LONGEST_NAME]!r}..."


def _shown(value: Any) -> str:
    """Show a number as it is, unless it is endless, and only the kind of anything that could be somebody's text."""
    is_shown = value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**20)
    return repr(value) if is_shown else kind_of(value)


def kind_of(value: Any) -> str:
    """Say what a JSON value is, without showing it."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number")


def _with_line(error: TraceError, data: bytes) -> TraceError:
    """Add the line of the event where the file keeps one event a line."""
    if error.event is None:
        return error
    lines = [number for number, line in enumerate(data.split(b"\n"), 1) if line.startswith(b' {"event_type"')]
    if error.event >= len(lines):
        return error
    message = f"{error.message} (line {lines[error.event]})"
    return TraceError(message, path=error.path, event=error.event, field=error.field)
