"""Write the journal of a recording as it happens, and read it again.

A last line that was cut by a kill is left out, damage anywhere else is a TraceError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from pydantic import TypeAdapter, ValidationError

from rotoscope.traces.errors import TraceError
from rotoscope.traces.journal import (
    JOURNAL_FORMAT,
    JOURNAL_VERSION,
    RECORD_KINDS,
    Journal,
    JournalHeader,
    JournalRecord,
)
from rotoscope.traces.journal_rules import JournalRules
from rotoscope.traces.writer import write_all

_KIND_OF = {record: kind for kind, record in RECORD_KINDS.items()}
_DEFAULTS = {record: {field.name: field.default for field in fields(record)} for record in (*_KIND_OF, JournalHeader)}


class JournalWriter:
    """Append records to a file and flush each batch; the file of a path is opened unbuffered, and closed at the end."""

    def __init__(self, destination: Path | BinaryIO) -> None:
        self._is_own = isinstance(destination, Path)
        self._file: BinaryIO = destination.open("wb", buffering=0) if isinstance(destination, Path) else destination

    def __repr__(self) -> str:
        return "JournalWriter()"

    def begin(self, header: JournalHeader) -> None:
        """Write the header. Raises OSError."""
        first = {"format": JOURNAL_FORMAT, "version": JOURNAL_VERSION} | _without_defaults(header)
        self._append(orjson.dumps(first, option=orjson.OPT_APPEND_NEWLINE))

    def write(self, records: Iterable[JournalRecord]) -> None:
        """Append the records in one piece. Raises OSError."""
        self._append(b"".join(map(_line, records)))

    def close(self) -> None:
        """Close the file that was opened here. Raises OSError."""
        if self._is_own:
            self._file.close()

    def _append(self, data: bytes) -> None:
        write_all(self._file, data)
        self._file.flush()


def read_journal(path: Path) -> Journal:
    """Read the journal of a recording, cut last line or not.

    Raises TraceError with line and field where it is damaged, OSError when it cannot be read.
    """
    return parse_journal(path.read_bytes(), path=str(path))


def parse_journal(data: bytes, *, path: str = "journal") -> Journal:
    """Read a journal from memory. Raises TraceError with line and field where it is damaged."""
    lines = data.split(b"\n")[:-1]
    if not lines:
        raise TraceError("expected the header of a recording, found nothing that can be recovered", path=path)
    header = _read_header(lines[0], path)
    rules = JournalRules(header)
    records: list[JournalRecord] = []
    for number, line in enumerate(lines[1:], start=2):
        records.append(_read(line, number, path))
        rules.check(records[-1], where=f"{path}:{number}")
    return Journal(header, tuple(records))


def _line(record: JournalRecord) -> bytes:
    kind = {"record": _KIND_OF[type(record)]}
    return orjson.dumps(kind | _without_defaults(record), option=orjson.OPT_APPEND_NEWLINE)


def _without_defaults(record: JournalRecord | JournalHeader) -> dict[str, Any]:
    defaults = _DEFAULTS[type(record)]
    return {name: value for name, default in defaults.items() if (value := getattr(record, name)) != default}


def _read_header(line: bytes, path: str) -> JournalHeader:
    content = _parsed(line)
    if not isinstance(content, dict) or content.pop("format", None) != JOURNAL_FORMAT:
        raise TraceError(f"expected {JOURNAL_FORMAT!r}: this is no journal", path=f"{path}:1", field="format")
    if (version := content.pop("version", None)) != JOURNAL_VERSION:
        raise TraceError(
            f"expected version {JOURNAL_VERSION}, found {version!r}; recover it with the release that wrote it",
            path=f"{path}:1",
            field="version",
        )
    header: JournalHeader = _valid(JournalHeader, content, 1, path)
    return header


def _read(line: bytes, number: int, path: str) -> JournalRecord:
    content = _object(line, number, path)
    kind = content.pop("record", None)
    if not isinstance(kind, str) or kind not in RECORD_KINDS:
        raise TraceError(f"expected one of {', '.join(RECORD_KINDS)}", path=f"{path}:{number}", field="record")
    record: JournalRecord = _valid(RECORD_KINDS[kind], content, number, path)
    return record


def _object(line: bytes, number: int, path: str) -> dict[str, Any]:
    content = _parsed(line)
    if not isinstance(content, dict):
        raise TraceError("expected a JSON object: the journal is damaged here", path=f"{path}:{number}")
    return content


def _parsed(line: bytes) -> Any:
    """Return what a line says, None when it is no JSON."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _valid(kind: type, content: dict[str, Any], number: int, path: str) -> Any:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        return _ADAPTERS[kind].validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"])
        raise TraceError(first["msg"].lower(), path=f"{path}:{number}", field=field) from None
