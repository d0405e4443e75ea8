"""Write traces in another format: one file or a folder, whole or not at all, with an account of what is kept and lost.

Formats whose files hold one trace give a file for one trace and a folder for several; the others give one file. What is
there already is never overwritten unless that is asked for.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rotoscope.traces.corpus import MANIFEST_NAME, Member, read_manifest, write_manifest
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.recognise import LabelledTrace
from rotoscope.traces.formats.registry import Writable

STANDARD_OUTPUT = "-"
NO_ORDER = Aspect(
    "when traces began, and the order of all calls",
    "lost",
    "traces of several files have no common clock",
    unit="traces",
)
NO_CALLS = Aspect("traces without calls", "lost", "the file has a row a call", unit="traces")
_LONGEST_PART = 100
"""Of a temporary name, so that it is not too long where the name itself is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where traces go and in which form."""

    path: str
    """A file, a folder, or `-` for standard output; `.gz` at its end compresses a file."""
    format: Writable
    block_size: int | None = None
    """Tokens a block; None takes the format's own."""
    overwrites: bool = False

    def __post_init__(self) -> None:
        if self.block_size is not None and self.format.block_size is None:
            raise UnusableInput(f"{self.format.title} has no blocks: leave out the block size")

    @property
    def tokens_a_block(self) -> int:
        return self.block_size or self.format.block_size or 1


def convert(traces: Sequence[LabelledTrace], target: Target, fidelity: Fidelity) -> int:
    """Write traces and note what the writer kept and lost; return the number of files, raise RunFailed if it cannot."""
    try:
        if target.format.write_corpus is not None:
            members = _members(_with_calls(traces, target, fidelity))
            _write_file(target, target.format.write_corpus(members, fidelity, block_size=target.tokens_a_block))
            return 1
        if len(traces) == 1 and not target.path.endswith("/") and not Path(target.path).is_dir():
            _write_file(target, [_trace_bytes(traces[0], target, fidelity)])
            return 1
        return _write_folder(traces, target, fidelity)
    except OSError as error:
        raise RunFailed(f"{target.path}: cannot be written: {error.strerror}") from error


def _with_calls(traces: Sequence[LabelledTrace], target: Target, fidelity: Fidelity) -> list[LabelledTrace]:
    """Return the traces that a file with a row a call has anything of; raise UnusableInput where there are none."""
    if target.format.keeps_empty:
        return list(traces)
    kept = [one for one in traces if next(one.trace.calls(), None) is not None]
    if traces and not kept:
        others = f", nor has any of {len(traces) - 1} others" if len(traces) > 1 else ""
        raise UnusableInput(f"{traces[0].name}: has no call{others}: a file of {target.format.title} would be empty")
    fidelity.note(NO_CALLS, len(traces) - len(kept))
    return kept


def _trace_bytes(trace: LabelledTrace, target: Target, fidelity: Fidelity) -> bytes:
    assert target.format.write_trace is not None
    return target.format.write_trace(trace.trace, fidelity, block_size=target.tokens_a_block)


def _members(traces: Sequence[LabelledTrace]) -> list[Member]:
    """Return the traces as one corpus, which has a clock and an order where they all come from the same one."""
    if None not in (corpora := {trace.corpus for trace in traces}) and len(corpora) == 1:
        return [trace.member for trace in traces]
    return [Member(name=name, trace=trace.trace) for name, trace in zip(_names(traces), traces, strict=True)]


def _names(traces: Sequence[LabelledTrace]) -> list[str]:
    """Return a name for each trace that no other one has and that can be a file's."""
    names: dict[str, None] = {}
    for trace in traces:
        stem = trace.stem.removesuffix(".trace").replace("#", "-").lstrip("-") or "trace"  # a stem of `-` is an input
        number = 1
        name = stem
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        names[name] = None
    return list(names)


def _write_folder(traces: Sequence[LabelledTrace], target: Target, fidelity: Fidelity) -> int:
    if target.path == STANDARD_OUTPUT:
        raise UnusableInput(f"{len(traces)} traces are {len(traces)} files of {target.format.title}: name a folder")
    names = [f"{name}{target.format.suffix}" for name in _names(traces)]
    _check_manifest(Path(target.path), names)
    with new_folder(Path(target.path), overwrites=target.overwrites) as folder:
        for name, trace in zip(names, traces, strict=True):
            (folder / name).write_bytes(_trace_bytes(trace, target, fidelity))
        if target.format.name == "rotoscope" and any(trace.corpus for trace in traces):
            members = _members(traces)
            fidelity.note(NO_ORDER, sum(member.ranks is None for member in members))
            write_manifest(folder, zip(names, members, strict=True))
    return len(traces)


def _check_manifest(folder: Path, names: Sequence[str]) -> None:
    """Raise UnusableInput where the manifest of a folder would no longer be that of all traces in it."""
    if (folder / MANIFEST_NAME).is_file() and not read_manifest(folder).places.keys() <= set(names):
        raise UnusableInput(f"{folder}: holds a corpus of other traces, whose order would be lost; name another folder")


@contextmanager
def new_folder(path: Path, *, overwrites: bool) -> Iterator[Path]:
    """Give a folder to be filled, which takes its name when it is; one that is there gets the files and keeps its own."""
    if path.exists() and not path.is_dir():
        raise UnusableInput(f"{path}: is a file, expected a folder for several traces")
    if path.is_dir() and any(path.iterdir()) and not overwrites:
        raise UnusableInput(f"{path}: is not empty; name another folder, or write into it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    there = path.is_dir()  # it may be a volume of its own, into which nothing can be renamed from beside it
    temporary = Path(tempfile.mkdtemp(dir=path if there else path.parent, prefix=f".{path.name[:_LONGEST_PART]}."))
    made: list[Path] = []
    try:
        yield temporary
        if there:
            names = os.listdir(temporary)
            for name in names:
                if not overwrites:
                    (path / name).touch(exist_ok=False)
                    made.append(path / name)
                (temporary / name).replace(path / name)
            if MANIFEST_NAME not in names:
                (path / MANIFEST_NAME).unlink(missing_ok=True)
            temporary.rmdir()
        else:
            temporary.chmod(0o777 & ~_umask())
            temporary.rename(path)
    except BaseException:  # an interruption too: no half of it may stay
        for one in made:
            one.unlink(missing_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_file(target: Target, pieces: Iterable[bytes]) -> None:
    if target.path == STANDARD_OUTPUT:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    path = Path(target.path)
    if path.is_dir():
        raise UnusableInput(f"{path}: is a folder; {target.format.title} keeps all traces in one file, name one")
    is_stream = path.exists() and not path.is_file()
    if path.exists() and not is_stream and not target.overwrites:
        raise UnusableInput(f"{path}: is there already; name another file, or overwrite it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") if is_stream else _new_file(path) as file:
        for piece in pieces:
            file.write(piece)


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to be filled, which takes its name when it is whole; a link keeps pointing to it."""
    named, path = path, path.resolve()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_LONGEST_PART]}.")
    try:
        with os.fdopen(handle, "wb") as raw:
            if named.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw, filename="", mode="wb", mtime=0) as zipped:
                    yield zipped  # type: ignore[misc]  # GzipFile is an IO[bytes]
            else:
                yield raw
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:  # an interruption too: no half of it may stay
        os.unlink(temporary)
        raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
