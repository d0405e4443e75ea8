"""Open trace files of any format that is known; what a file is, is told from its content, never from its name."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from rotoscope.traces.errors import TraceError, UnusableInput
from rotoscope.traces.formats.trtllm import read_trtllm
from rotoscope.traces.formats.weka import read_weka
from rotoscope.traces.model import FORMAT_NAME, Trace
from rotoscope.traces.reader import loads, looks_like_ours

logger = logging.getLogger(__name__)

HEAD_BYTES = 1 << 20
"""How much of a file is looked at to tell what it is; the rest is read only if it is a trace."""

Reader = Callable[[bytes, str], Trace]


class LabelledTrace(NamedTuple):
    """A trace, the file it was read from, and the label it is grouped under."""

    label: str
    path: Path
    trace: Trace

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name


def open_trace(path: str | Path) -> Trace:
    """Read one trace file of any known format; raise TraceError where it is none or damaged."""
    with _opened(Path(path)) as file:
        return _read(file, str(path))


def open_traces(paths: Iterable[str | Path]) -> list[LabelledTrace]:
    """Read files and folders, these with all below them in sorted order; each may be given as LABEL=PATH.

    Without a label a trace gets the name of its folder. Files in a folder that are no traces are skipped with a
    warning, damaged traces are not. Raise UnusableInput where a path cannot be read or holds no trace.
    """
    return [trace for given in paths for trace in _open_one(given)]


def _open_one(given: str | Path) -> list[LabelledTrace]:
    label, path = _label_and_path(given)
    if not path.is_dir():
        return [LabelledTrace(label or _folder_name(path), path, open_trace(path))]
    traces = [
        LabelledTrace(label or _folder_name(file), file, trace)
        for file in _files_below(path)
        if (trace := _trace_or_nothing(file)) is not None
    ]
    if not traces:
        raise UnusableInput(f"{path}: no trace in this folder or below; give a trace file or another folder")
    return traces


def _label_and_path(given: str | Path) -> tuple[str | None, Path]:
    text = str(given)
    label, separator, rest = text.partition("=")
    if isinstance(given, Path) or not separator or os.path.lexists(text):
        return None, Path(given)
    if not label or not rest:
        raise UnusableInput(f"{text!r}: expected LABEL=PATH")
    return label, Path(rest)


def _folder_name(file: Path) -> str:
    return file.resolve().parent.name


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        for file in (Path(parent, name) for name in sorted(files)):
            if file.is_file():
                yield file
            else:
                logger.warning("%s: skipped, it is no regular file", file)


def _raise(error: OSError) -> None:
    raise UnusableInput(f"{error.filename}: cannot be read: {error.strerror}") from error


def _trace_or_nothing(file: Path) -> Trace | None:
    with _opened(file) as stream:
        head = stream.read(HEAD_BYTES)
        if _reader(head) is None:
            logger.warning("%s: skipped, it is no trace that is known", file)
            return None
        return _read(stream, str(file), head)


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error


def _read(file: IO[bytes], name: str, head: bytes | None = None) -> Trace:
    try:
        head = file.read(HEAD_BYTES) if head is None else head
        reader = _reader(head)
        if reader is None:
            raise TraceError(_not_known(head), path=name)
        return reader(head + file.read(), name)
    except OSError as error:
        raise UnusableInput(f"{name}: cannot be read: {error.strerror}") from error


def _not_known(head: bytes) -> str:
    if not head.strip():
        return "expected a trace, found an empty file"
    formats = ", ".join(name for name, _, _ in _FORMATS)
    found = "something else" if head.lstrip()[:1] == b"{" else "no JSON object"
    return f"expected a trace ({formats}), found {found}"


def _read_ours(data: bytes, path: str) -> Trace:
    return loads(data, path=path)


def _read_events(data: bytes, path: str) -> Trace:
    """Read TensorRT-LLM's events, or ours where another program has put the keys of the file in another order."""
    return loads(data, path=path) if _OURS.search(data) else read_trtllm(data, path)


def _looks_like_trtllm(head: bytes) -> bool:
    return "events" in _keys(head) and (b'"event_type"' in head or len(head) < HEAD_BYTES)


def _looks_like_weka(head: bytes) -> bool:
    return "requests" in _keys(head) and (b'"hash_ids"' in head or len(head) < HEAD_BYTES)


_OURS = re.compile(rb'"format"\s*:\s*\{[^{}]*"%b"' % re.escape(FORMAT_NAME.encode()))
"""No content can look like it: quotes within strings are escaped."""

_FORMATS: Sequence[tuple[str, Callable[[bytes], bool], Reader]] = (
    ("Rotoscope", looks_like_ours, _read_ours),
    ("TensorRT-LLM", _looks_like_trtllm, _read_events),
    ("Weka", _looks_like_weka, read_weka),
)


def _reader(head: bytes) -> Reader | None:
    return next((reader for _, looks_like, reader in _FORMATS if looks_like(head)), None)


_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]:]', re.DOTALL)
"""A string, which the end of the head may cut, a bracket or a colon."""


def _keys(head: bytes) -> set[str]:
    """Return the keys of the outermost JSON object as far as the head of its file shows them."""
    keys: set[str] = set()
    if not head.lstrip().startswith(b"{"):
        return keys
    depth, text = 0, b""
    for match in _TOKEN.finditer(head):
        token = match.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b":" and depth == 1:
            keys.add(text.strip(b'"').decode("utf-8", "replace"))
        text = token
    return keys
