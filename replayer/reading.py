"""Read the results of a replay back: strict, and each kind of damage is its own error with file, line and field.

A field that an older version did not write has its default; `results` says what a version may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rotoscope.replayer.gpu_telemetry.readings import GpuSample
from rotoscope.replayer.results import (
    FORMAT_NAME,
    FORMAT_VERSION,
    GPUS_FILE,
    REQUESTS_FILE,
    SERVER_FILE,
    SESSIONS_FILE,
    SUMMARY_FILE,
    TIMELINE_FILE,
    RequestResult,
    SessionResult,
)
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.summary import NOT_WRITTEN, Summary
from rotoscope.replayer.timeline import Bin
from rotoscope.traces.errors import TraceError, UnusableInput

T = TypeVar("T")

_UNKNOWN = "unknown field: a newer Rotoscope may have written it"

_adapters: dict[type, TypeAdapter[Any]] = {}
"""Filled on first use: building a validator costs milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a run left in its folder."""

    summary: Summary
    requests: tuple[RequestResult, ...]
    """In the order in which they ended."""
    sessions: tuple[SessionResult, ...]
    """Likewise."""
    server: tuple[ServerSample, ...] = ()
    """In the order of time; none of a server without metrics, or of an older version, which has no timeline either."""
    timeline: tuple[Bin, ...] = ()
    gpus: tuple[GpuSample, ...] = ()
    """Likewise in the order of time, of all GPUs."""


def read_results(folder: Path) -> Results:
    """Read the folder of a run that has ended; raise UnusableInput where it is none, is damaged or is newer than this."""
    summary = read_summary(folder)
    requests = _lines(folder / REQUESTS_FILE, RequestResult)
    sessions = _lines(folder / SESSIONS_FILE, SessionResult)
    for name, found, counts in (
        (REQUESTS_FILE, len(requests), summary.requests),
        (SESSIONS_FILE, len(sessions), summary.sessions),
    ):
        expected = counts.ok + counts.failed + counts.cancelled
        if found != expected:
            raise _damaged(f"expected {expected} lines, as the summary counts them, found {found}", folder / name)
    return Results(
        summary=summary,
        requests=requests,
        sessions=sessions,
        server=_lines_of_some(folder / SERVER_FILE, ServerSample),
        timeline=_lines_of_some(folder / TIMELINE_FILE, Bin),
        gpus=_lines_of_some(folder / GPUS_FILE, GpuSample),
    )


def read_summary(folder: Path) -> Summary:
    """Read only the summary of a run that has ended; raise UnusableInput likewise."""
    path = folder / SUMMARY_FILE
    if not path.exists():
        raise UnusableInput(f"{str(folder)!r} holds no {SUMMARY_FILE}: expected the folder of a replay that has ended")
    data = _bytes(path)
    raw = _parsed(data, path)
    _check_version(raw.pop("format", None), path)
    for name in NOT_WRITTEN & set(raw):
        raise _damaged(_UNKNOWN, path, field=name)
    return _valid(Summary, orjson.dumps(raw), path)


def _lines_of_some(path: Path, kind: type[T]) -> tuple[T, ...]:
    """Return the lines of a file that not every run has."""
    return _lines(path, kind) if path.exists() else ()


def _lines(path: Path, kind: type[T]) -> tuple[T, ...]:
    *lines, rest = _bytes(path).split(b"\n")
    if rest:
        raise _damaged("the file ends within this line: truncated", path, line=len(lines) + 1)
    return tuple(_valid(kind, line, path, line=number) for number, line in enumerate(lines, 1))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error


def _parsed(data: bytes, path: Path, line: int | None = None) -> dict[str, Any]:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _damaged("expected JSON: the file is damaged or cut", path, line=line) from None
    if not isinstance(raw, dict):
        raise _damaged("expected an object", path, line=line)
    return raw


def _check_version(value: Any, path: Path) -> None:
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is not int or version < 1 or value != {"name": FORMAT_NAME, "version": version}:
        raise _damaged(
            f"expected the name {FORMAT_NAME!r} and a version from 1 to {FORMAT_VERSION}", path, field="format"
        )
    if version > FORMAT_VERSION:
        newer = f"version {version} is newer than {FORMAT_VERSION}, the newest this Rotoscope reads; upgrade Rotoscope"
        raise _damaged(newer, path, field="format.version")


def _valid(kind: type[T], data: bytes, path: Path, *, line: int | None = None) -> T:
    try:
        value: T = _adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        message, field = _told(error.errors(include_url=False, include_input=False)[0])
        raise _damaged(message, path, line=line, field=field) from None
    for field in _unknown(_parsed(data, path, line), value):
        raise _damaged(_UNKNOWN, path, line=line, field=field)
    return value


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _told(detail: ErrorDetails) -> tuple[str, str]:
    """Return what is wrong, and with which field; nothing of the value is told."""
    if detail["type"] == "json_invalid":
        return "expected JSON: the file is damaged or cut", ""
    field = ".".join(str(part) for part in detail["loc"])
    if detail["type"].startswith("missing"):
        return "required, but not there", field
    expectation = detail["msg"].removeprefix("Input should be ")
    return f"expected {expectation[0].lower()}{expectation[1:]}", field


def _unknown(raw: Any, value: Any, under: str = "") -> Iterator[str]:
    """Yield the path of each field that the class of a value does not have."""
    if not isinstance(raw, dict) or not is_dataclass(value):
        return
    known = {one.name for one in fields(value)}
    for name, inner in raw.items():
        if name not in known:
            yield under + name
        elif isinstance(inner, dict):
            yield from _unknown(inner, getattr(value, name), f"{under}{name}.")


def _damaged(message: str, path: Path, *, line: int | None = None, field: str = "") -> TraceError:
    return TraceError(message, path=str(path), line=line, field=field)
