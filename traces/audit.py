"""Prove that what was recorded may be shown: every file of a kind that is known, every value in it of a closed form.

1. Folders are walked to every file, whatever its name; links and devices are refused, as nobody knows where they lead.
2. A file is told by its content and checked as its kind demands (`audit_kinds`); any other kind is refused by name.
3. If canaries are given, none of their forms may be in any byte of the files, packed ones included, or in a name.
4. What is allowed and still could say something is counted: names that may be public, and what numbers tell (`Census`).

It cannot prove that a number means what its field says; docs/audit.md has the limits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import OUR_NAME, FileFindings, Findings, shown_step
from rotoscope.traces.audit_kinds import TRACE_KINDS, Kind
from rotoscope.traces.canary import Canaries
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.packed_files import is_packed

HEAD_BYTES = 4096
MOST_BYTES = 1 << 30
"""A file of one of our kinds is read whole; no recording comes near it."""


@dataclass(slots=True)
class Audit:
    """What an audit found."""

    files: int = 0
    findings: Findings = field(default_factory=Findings)
    census: Census = field(default_factory=Census)

    @property
    def is_clean(self) -> bool:
        return not self.findings.total

    def as_dict(self) -> dict[str, object]:
        """Return all of it for programs."""
        return {
            "files": self.files,
            "clean": self.is_clean,
            "findings": [asdict(one) for one in self.findings.kept],
            "findings_total": self.findings.total,
            "names": [
                {"kind": name.kind, "name": name.value, "times": times} for name, times in self.findings.sorted_names()
            ],
            "census": self.census.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    shown: str


def audit(
    paths: Iterable[Path],
    *,
    kinds: Iterable[Kind] = TRACE_KINDS,
    canaries: Canaries | None = None,
    only_canaries: bool = False,
) -> Audit:
    """Audit files and folders; `kinds` are gone through for each file, `only_canaries` lets files of any kind through and looks for canaries only.

    Raises UnusableInput where a path cannot be read or is empty, so that nothing can be said.
    """
    result = Audit()
    for path in paths:
        before = result.files
        for entry in _entries(path):
            _audit_entry(entry, result, kinds=kinds, canaries=canaries, only_canaries=only_canaries)
        if result.files == before:
            raise UnusableInput(f"{path}: holds no file that could be audited")
    return result


def _audit_entry(
    entry: _Entry, result: Audit, *, kinds: Iterable[Kind], canaries: Canaries | None, only_canaries: bool
) -> None:
    shown = entry.shown
    if canaries is not None:
        shown = str(Path(shown).parent / canaries.shown_name(Path(Path(shown).name)))
        for hit in canaries.in_name(entry.path.name, shown):
            result.findings.add(shown, f"its name holds canary {hit.canary}, {hit.form}")
    if not only_canaries and _has_attributes(entry.path):
        result.findings.add(shown, "has extended attributes, which go along with copies: remove them")
    mode = entry.path.lstat().st_mode
    if stat.S_ISDIR(mode):
        if not only_canaries:
            _check_name(entry.path.name, "folder name", FileFindings(shown, result.findings))
        return
    result.files += 1
    if not stat.S_ISREG(mode):
        result.findings.add(shown, "is a link or a device, and not a file")
        return
    if canaries is not None:
        for hit in canaries.in_file(entry.path, shown_as=shown):
            result.findings.add(hit.where, f"holds canary {hit.canary} at byte {hit.offset}, {hit.form}")
    if not only_canaries:
        _check_file(entry.path, FileFindings(shown, result.findings), result.census, kinds)


def _has_attributes(path: Path) -> bool:
    """Whether somebody put attributes of their own beside the bytes of a file or folder, where the system tells."""
    try:
        names = os.listxattr(path, follow_symlinks=False) if hasattr(os, "listxattr") else []
    except OSError:  # a file system without them
        return False
    return any(name.startswith("user.") for name in names)


def _check_file(path: Path, findings: FileFindings, census: Census, kinds: Iterable[Kind]) -> None:
    _check_name(path.name, "file name", findings)
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            kind = next((one for one in kinds if one.recognises(path.name, head)), None)
            if kind is None:
                hint = "unpack it" if is_packed(head) else f"expected one of {', '.join(one.title for one in kinds)}"
                findings.add(f"is of no kind that may be shown; {hint}")
            elif path.stat().st_size > MOST_BYTES:
                findings.add(f"is greater than {MOST_BYTES:,} bytes, which no recording is")
            else:
                kind.check(head + file.read(), findings, census)
    except OSError as error:
        raise UnusableInput(f"{findings.file}: cannot be read: {error.strerror}") from error


def _check_name(name: str, kind: str, findings: FileFindings) -> None:
    if shown_step(name) != name:
        findings.add("its name could be somebody's text: rename it")
    elif Path(findings.file).name == name and not OUR_NAME.match(name):
        findings.see(kind, name)


def _entries(path: Path) -> Iterator[_Entry]:
    """Yield a file, or a folder's files and folders in sorted order."""
    if not os.path.lexists(path):
        raise UnusableInput(f"{path}: is not there")
    real = Path(os.path.realpath(path))
    """A link that was named by hand may lead where it wants."""
    if not real.is_dir():
        yield _Entry(real, str(path.parent / shown_step(path.name)))
        return
    for parent, folders, files in os.walk(real, onerror=_raise):
        folders.sort()
        steps = [shown_step(step) for step in Path(parent).relative_to(real).parts]
        for name in sorted([*files, *folders]):
            yield _Entry(Path(parent, name), str(Path(path, *steps, shown_step(name))))


def _raise(error: OSError) -> None:
    raise UnusableInput(f"a folder cannot be read: {error.strerror}") from error
