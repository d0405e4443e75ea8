"""Open trace files of any format that is known; what a file is, is told from its content, never from its name."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rotoscope.traces.corpus import MANIFEST_NAME, CorpusName, Member, read_manifest
from rotoscope.traces.errors import TraceError, UnusableInput
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.heads import Head
from rotoscope.traces.formats.registry import Format, all_formats, format_of
from rotoscope.traces.formats.source import Source, opened
from rotoscope.traces.model import Trace

logger = logging.getLogger(__name__)

_JOURNAL = b'{"format":"rotoscope.journal"'
"""How a journal begins; the module that writes them takes longer to load than most files to open."""


_JSON_OBJECT = re.compile(rb"\s*(\[\s*)?\{")
"""How JSON begins that could hold a trace; a list may be a page's link as well."""
_SUFFIXES = frozenset((".json", ".jsonl", ".csv", ".pb"))
"""That names of traces have, before that of a packer."""
RESULT_FILES = frozenset(("results.jsonl", "sessions.jsonl", "summary.json"))
"""What a replay leaves in its folder, which may stand among the traces that it read."""
FURTHER_RESULT_FILES = frozenset(("server.jsonl", "timeline.jsonl", "gpus.jsonl"))
"""What only some leave there, beside the others."""


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """A trace, the file it was read from, and the label it is grouped under."""

    label: str
    path: Path
    member: Member
    corpus: Path | None = None
    """The file or folder whose traces have one clock and one order, if it is a part of such a corpus."""

    @property
    def trace(self) -> Trace:
        return self.member.trace

    @property
    def name(self) -> str:
        """The name of the file; of a file with many traces with `#` and the name of this one."""
        return f"{self.path.name}#{self.member.name}" if self._is_one_of_many else self.path.name

    @property
    def stem(self) -> str:
        """The same without the file's extension."""
        return f"{self.path.stem}#{self.member.name}" if self._is_one_of_many else self.path.stem

    @property
    def _is_one_of_many(self) -> bool:
        """Whether its file holds others; traces of a folder with a manifest have the folder as corpus."""
        return bool(self.member.name) and self.corpus in (None, self.path)


def open_trace(path: str | Path) -> Trace:
    """Read one trace of any known format, given as FILE, or as FILE#NAME where the file holds many.

    Raise TraceError where it is none, damaged, or one of many that is not named.
    """
    file, name = _file_and_name(Path(path))
    if file.is_dir():
        raise TraceError("is a folder: name a trace in it", path=str(path))
    with opened(file) as source:
        members = read_source(source)[1]
    if name is not None:
        return _named(members, name, file).trace
    if len(members) != 1:
        example = f", {file.name}#{members[0].name} for one" if members else ""
        raise TraceError(f"expected one trace, found {len(members)}: name one{example}", path=str(path))
    return members[0].trace


def open_traces(paths: Iterable[str | Path], fidelity: Fidelity | None = None) -> list[LabelledTrace]:
    """Read files and folders, these with all below them in sorted order; each may be given as LABEL=PATH.

    FILE#NAME is one trace of a file that holds many. The manifest of a corpus is skipped with a warning.
    Without a label a trace gets the name of its folder. Files in a folder that are no traces are skipped, with a warning
    where they could be meant as one; damaged traces are not. What the readers kept and lost is noted in `fidelity`. Raise UnusableInput where a
    path cannot be read or holds no trace.
    """
    fidelity = Fidelity() if fidelity is None else fidelity
    found = [(given, _open_one(given, fidelity)) for given in paths]
    if found and all(traces is None for _, traces in found):
        raise UnusableInput(f"{found[0][0]}: is the manifest of a corpus and no trace; give its folder instead")
    return [trace for _, traces in found for trace in traces or ()]


def corpus_called(traces: Sequence[LabelledTrace]) -> CorpusName | None:
    """Return what traces are called together: they must be all of one folder whose manifest has a name."""
    folders = {one.corpus for one in traces}
    folder = next(iter(folders), None)
    if folder is None or len(folders) > 1 or not (folder / MANIFEST_NAME).is_file():
        return None
    manifest = read_manifest(folder)
    return manifest.called if sorted(one.path.name for one in traces) == sorted(manifest.places) else None


def read_source(source: Source, fidelity: Fidelity | None = None) -> tuple[Format, list[Member]]:
    """Read a file that must be a trace; return its format too."""
    known = format_of(Head(source.head))
    if known is None:
        raise TraceError(_not_known(source.head), path=source.name)
    return known, known.read(source, Fidelity() if fidelity is None else fidelity)


def _open_one(given: str | Path, fidelity: Fidelity) -> list[LabelledTrace] | None:
    """Return the traces of a path, None where it is the manifest of a corpus."""
    label, path = _label_and_path(given)
    path, name = _file_and_name(path)
    if not path.is_dir():
        with opened(path) as source:
            if path.name == MANIFEST_NAME and "traces" in Head(source.head).keys:
                logger.warning("%s: skipped, it is a manifest; give its folder to have its clock and order", path)
                return None
            members = read_source(source, fidelity)[1]
        return _labelled(label, path, members if name is None else [_named(members, name, path)])
    found = [trace for file in _files_below(path) for trace in _traces_or_nothing(label, file, fidelity)]
    if not found:
        raise UnusableInput(f"{path}: no trace in this folder or below; give a trace file or another folder")
    return _placed(found)


def _labelled(label: str | None, path: Path, members: Iterable[Member]) -> list[LabelledTrace]:
    label = label or path.resolve().parent.name
    return [LabelledTrace(label, path, member, path if member.ranks is not None else None) for member in members]


def _placed(found: list[LabelledTrace]) -> list[LabelledTrace]:
    """Put the traces of folders with a manifest on its clock and in its order."""
    manifests = {
        folder: read_manifest(folder)
        for folder in {trace.path.parent for trace in found}
        if (folder / MANIFEST_NAME).is_file()
    }
    return [
        LabelledTrace(trace.label, trace.path, manifests[folder].placed(trace.path, trace.trace), folder)
        if (folder := trace.path.parent) in manifests and trace.corpus is None
        else trace
        for trace in found
    ]


def _label_and_path(given: str | Path) -> tuple[str | None, Path]:
    text = str(given)
    label, separator, rest = text.partition("=")
    if isinstance(given, Path) or not separator or os.path.lexists(_file_and_name(Path(text))[0]):
        return None, Path(given)
    if not label or not rest:
        raise UnusableInput(f"{text!r}: expected LABEL=PATH")
    return label, Path(rest)


def _file_and_name(path: Path) -> tuple[Path, str | None]:
    """Split FILE#NAME, unless there is a file of that name."""
    file, separator, name = path.name.rpartition("#")
    return (path.with_name(file), name) if separator and file and not os.path.lexists(path) else (path, None)


def _named(members: Sequence[Member], name: str, file: Path) -> Member:
    for member in members:
        if member.name == name:
            return member
    known = f"names from {members[0].name!r} to {members[-1].name!r}" if members else "no trace"
    raise TraceError(f"no trace {name!r}: there are {known}", path=str(file))


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        passed_over = {MANIFEST_NAME} | (RESULT_FILES | FURTHER_RESULT_FILES if set(files) >= RESULT_FILES else set())
        for file in (Path(parent, name) for name in sorted(files) if name not in passed_over):
            if file.is_file():
                yield file
            else:
                logger.warning("%s: skipped, it is no regular file", file)


def _raise(error: OSError) -> None:
    raise UnusableInput(f"{error.filename}: cannot be read: {error.strerror}") from error


def _traces_or_nothing(label: str | None, file: Path, fidelity: Fidelity) -> list[LabelledTrace]:
    with opened(file) as source:
        if format_of(Head(source.head)) is None:
            if _could_be_meant(file, source.head):
                logger.warning("%s: skipped, %s", file, _what_else(source.head))
            return []
        return _labelled(label, file, read_source(source, fidelity)[1])


def _could_be_meant(file: Path, head: bytes) -> bool:
    """Whether a file that is no trace may have been meant as one, unlike a page of text or what a tool left there."""
    return bool(_JSON_OBJECT.match(head)) or not _SUFFIXES.isdisjoint(file.suffixes)


def _what_else(head: bytes) -> str:
    """Say what a file among traces is that is none."""
    if head.startswith(_JOURNAL):
        return (
            "it is the journal of a recording that runs or was killed: 'rotoscope recover' makes the trace of that one"
        )
    return "it is no trace that is known"


def _not_known(head: bytes) -> str:
    if not head.strip():
        return "expected a trace, found an empty file"
    formats = ", ".join(known.title for known in all_formats())
    found = "something else" if head.lstrip()[:1] == b"{" else "no JSON object"
    return f"expected a trace ({formats}), found {found}"
