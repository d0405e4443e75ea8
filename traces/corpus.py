"""Several traces on one clock: the sessions of a file that holds many, or the traces of a folder with a manifest.

A trace starts at zero. What a trace cannot say is when it started beside the others and, where two requests have the
same time, which came first: that is what a member adds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import orjson

from rotoscope.traces.errors import TraceError, UnusableInput
from rotoscope.traces.model import MAX_MILLISECONDS, Call, Trace
from rotoscope.traces.reader import kind_of, parse_json
from rotoscope.traces.writer import dumps, write_whole

MANIFEST_NAME = "corpus.json"
FORMAT_NAME = "rotoscope.corpus"
FORMAT_VERSION = 1

NAME = r"[a-z][a-z0-9-]{0,39}"
NAME_IN_WORDS = "up to 40 small letters, digits and dashes, a letter first"
VERSION = r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,2}"
VERSION_IN_WORDS = "two or three numbers with dots, such as 1.0"

Place: TypeAlias = tuple[float | None, tuple[int, ...] | None]
"""Start and ranks of a trace in its corpus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A trace of a corpus."""

    name: str
    """Unique in the corpus: a dense number or the name of the file it was read from."""
    trace: Trace
    start_ms: float | None = None
    """When its first request arrived on the corpus's clock, at least 0; None where there is no common clock."""
    ranks: tuple[int, ...] | None = None
    """Place of each call, by its number, in the order of all calls of the corpus; None where there is no such order."""


def calls_in_order(members: Sequence[Member]) -> list[tuple[int, Call]]:
    """Return all calls with the index of their member: by rank, or one trace after the other where ranks are missing."""
    calls = [
        (rank, index, call)
        for index, member in enumerate(members)
        for rank, call in zip(_ranks(member), member.trace.calls(), strict=True)
    ]
    if all(member.ranks is not None for member in members):
        calls.sort(key=lambda item: item[0])
    return [(index, call) for _, index, call in calls]


def _ranks(member: Member) -> Iterable[int]:
    return range(sum(1 for _ in member.trace.calls())) if member.ranks is None else member.ranks


@dataclass(frozen=True, slots=True)
class CorpusName:
    """What a corpus is called in public; raises UnusableInput for what could be somebody's text."""

    name: str
    version: str

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise UnusableInput(f"the name of a corpus is {NAME_IN_WORDS}, not {self.name!r}")
        if not re.fullmatch(VERSION, self.version):
            raise UnusableInput(f"the version of a corpus is {VERSION_IN_WORDS}, not {self.version!r}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `coding-agents@1.0`; raise UnusableInput for anything else."""
        name, _, version = text.partition("@")
        return cls(name, version)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file beside the traces of a corpus that says when each started and in which order their calls came."""

    path: Path
    places: dict[str, Place]
    """By name of the trace's file."""
    called: CorpusName | None = None
    """None where nobody named it."""

    def placed(self, file: Path, trace: Trace) -> Member:
        """Return a trace of the folder with its place; raise TraceError where the manifest does not fit it."""
        if file.name not in self.places:
            raise TraceError(
                f"does not name {file.name!r}: remove that file or write the corpus anew", path=str(self.path)
            )
        start_ms, ranks = self.places[file.name]
        calls = sum(1 for _ in trace.calls())
        if ranks is not None and len(ranks) != calls:
            raise TraceError(
                f"expected a rank for each of the {calls} calls of {file.name!r}, found {len(ranks)}",
                path=str(self.path),
            )
        return Member(name=file.name, trace=trace, start_ms=start_ms, ranks=ranks)


def sha256_of(traces: Iterable[Trace]) -> str:
    """Return a digest of traces in their order, whatever files and formats they were read from.

    It is the SHA-256 of lines with the SHA-256 of each trace's file as Rotoscope writes it, so that two traces that are
    told apart by nothing but white space, or a name, have the same.
    """
    lines = (hashlib.sha256(dumps(trace)).hexdigest() + "\n" for trace in traces)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def write_manifest(folder: Path, members: Iterable[tuple[str, Member]], called: CorpusName | None = None) -> None:
    """Write the manifest of a folder whose files are named beside their members."""
    places = {name: (one.start_ms, one.ranks) for name, one in members}
    write_whole(folder / MANIFEST_NAME, dump_manifest(places, called))


def dump_manifest(places: Mapping[str, Place], called: CorpusName | None = None) -> bytes:
    """Return the bytes of the manifest of files with these names."""
    lines = [
        b" " + orjson.dumps({"file": name, "start_ms": start_ms, "ranks": ranks})
        for name, (start_ms, ranks) in places.items()
    ]
    head = orjson.dumps({"name": FORMAT_NAME, "version": FORMAT_VERSION})
    name = [] if called is None else [(b"name", called.name), (b"version", called.version)]
    own = b"".join(b'"%b": %b,\n' % (key, orjson.dumps(value)) for key, value in name)
    return b'{\n"format": ' + head + b",\n" + own + b'"traces": [\n' + b",\n".join(lines) + b"\n]\n}\n"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; raise TraceError where it is damaged or newer than this program."""
    path = folder / MANIFEST_NAME
    try:
        raw = parse_json(path.read_bytes())
        return Manifest(path, places_in(raw), called_in(raw))
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error
    except TraceError as error:
        raise error.at(str(path)) from error.__cause__


def places_in(raw: Any) -> dict[str, Place]:
    """Return what the JSON of a manifest says; raise TraceError where it is damaged or newer than this program."""
    version = raw.get("format") if isinstance(raw, dict) else None
    keys = set(raw) - {"name", "version"} if version is not None else set()
    if version != {"name": FORMAT_NAME, "version": FORMAT_VERSION} or keys != {"format", "traces"}:
        raise TraceError(f"expected format {FORMAT_NAME!r} of version {FORMAT_VERSION} and traces")
    if not isinstance(raw["traces"], list):
        raise TraceError(f"expected a list, found {kind_of(raw['traces'])}", field="traces")
    places = {}
    ranks: list[int] = []
    for index, entry in enumerate(raw["traces"]):
        name, place = _place(entry, f"traces[{index}]")
        if name in places:
            raise TraceError("expected each file once", field=f"traces[{index}].file")
        places[name] = place
        ranks += place[1] or ()
    if len(set(ranks)) != len(ranks):
        raise TraceError("expected each rank once", field="traces")
    return places


def called_in(raw: dict[str, Any]) -> CorpusName | None:
    """Return what the JSON of a manifest says the corpus is called; raise TraceError where that is damaged."""
    if "name" not in raw and "version" not in raw:
        return None
    for field, form, expected in (("name", NAME, NAME_IN_WORDS), ("version", VERSION, VERSION_IN_WORDS)):
        value = raw.get(field)
        if not isinstance(value, str) or not re.fullmatch(form, value):
            raise TraceError(f"expected {expected}", field=field)
    return CorpusName(raw["name"], raw["version"])


def _place(entry: Any, field: str) -> tuple[str, Place]:
    if not isinstance(entry, dict) or set(entry) != {"file", "start_ms", "ranks"}:
        raise TraceError("expected an object with file, start_ms and ranks", field=field)
    name, start_ms, ranks = entry["file"], entry["start_ms"], entry["ranks"]
    if not isinstance(name, str):
        raise TraceError(f"expected a string, found {kind_of(name)}", field=f"{field}.file")
    if start_ms is not None and (type(start_ms) not in (int, float) or not 0 <= start_ms <= MAX_MILLISECONDS):
        raise TraceError("expected a time in milliseconds or null", field=f"{field}.start_ms")
    if ranks is not None and not (isinstance(ranks, list) and all(type(rank) is int and rank >= 0 for rank in ranks)):
        raise TraceError("expected a list of ranks or null", field=f"{field}.ranks")
    return name, (None if start_ms is None else float(start_ms), None if ranks is None else tuple(ranks))
