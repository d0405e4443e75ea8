"""The kinds of files that an audit lets through, and how each is checked: traces, journals, manifests of corpora.

A file passes when every value is allowed by its type, the whole obeys the trace model, times start at zero, and its bytes
are those that Rotoscope itself writes for these values, so that nothing lies in white space, spelling or order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

from rotoscope.traces import corpus, journal, journal_files
from rotoscope.traces.audit_census import TIMES, Census
from rotoscope.traces.audit_findings import OUR_NAME, PUBLIC_NAME, FileFindings
from rotoscope.traces.audit_ids import fine_times, loose_ids
from rotoscope.traces.audit_schema import breaches, epoch_like, spelled_texts
from rotoscope.traces.errors import TraceError
from rotoscope.traces.journal import JOURNAL_FORMAT, JOURNAL_VERSION
from rotoscope.traces.model import FORMAT_NAME, FORMAT_VERSION, Call, Message, Trace, TraceEvent
from rotoscope.traces.reader import loads, looks_like_ours
from rotoscope.traces.strict_json import Parsed, parse_strictly
from rotoscope.traces.writer import EVENT_TYPES, dumps

TOKENIZER = "tokenizer:"
MOST_TOKENIZERS = 2
"""The server's, and the one at hand."""
NOT_OUR_BYTES = "is not spelled as Rotoscope writes it, so that white space or order could hold something"
_A_PATH = re.compile(r"^[./]|\.\.|/.*/|/$")
"""Public names are those of an owner and a model at most."""
_EVENT_LINE = b' {"event_type"'
_EVENTS: dict[object, type[TraceEvent]] = {name: kind for kind, name in EVENT_TYPES.items() if kind is not Call}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file."""

    title: str
    recognises: Callable[[str, bytes], bool]
    """Takes the file's name and its first bytes."""
    check: Callable[[bytes, FileFindings, Census], None]
    """Takes the whole file."""


def check_trace(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check a trace."""
    parsed = parsed_or_found(data, findings)
    if parsed is None or not _is_trace_allowed(parsed.value, _event_lines(data), findings):
        return
    try:
        trace = loads(data)
    except TraceError as error:
        findings.add(_said(error))
        return
    if dumps(trace) != data:
        findings.add(f"{NOT_OUR_BYTES}: convert or publish it, which writes it anew")
    check_values(parsed.value, findings)
    for path, what in loose_ids(trace):
        findings.add(what, field=path)
    check_start((getattr(event, "at_ms", None) for event in trace.events), "at_ms", findings)
    check_times(trace.events, findings)
    see_sources(asdict(trace), findings)
    census.add_trace(trace)


def check_journal(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check a journal, a line at a time."""
    *lines, rest = data.split(b"\n")
    if rest:
        findings.add("ends within a line, which nobody can check: recover the trace", line=len(lines) + 1)
    are_allowed = [_is_line_allowed(line, number, findings) for number, line in enumerate(lines, 1)]
    if not lines or not all(are_allowed):
        return
    whole = data[: len(data) - len(rest)]
    try:
        recorded = journal_files.parse_journal(whole)
    except TraceError as error:
        findings.add(_said(error))
        return
    if _journal_bytes(recorded) != whole:
        findings.add(NOT_OUR_BYTES)
    check_start((getattr(record, "at_ms", None) for record in recorded.records), "at_ms", findings)
    check_times(recorded.records, findings)
    if recorded.header.tokenizer is not None:
        findings.see("tokenizer", recorded.header.tokenizer)
    census.journals += 1
    census.journals_of_named_campaigns += recorded.header.is_named


def check_manifest(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check the manifest of a corpus."""
    parsed = parsed_or_found(data, findings)
    if parsed is None:
        return
    try:
        places, called = corpus.places_in(parsed.value), corpus.called_in(parsed.value)
    except TraceError as error:
        findings.add(_said(error))
        return
    if any(not PUBLIC_NAME.match(name) for name in places):
        findings.add("names a file in a way that could be somebody's text", field="traces")
    for name in places:
        if PUBLIC_NAME.match(name) and not OUR_NAME.match(name):
            findings.see("file name in a manifest", name)
    ranks = sorted(rank for _, ranks in places.values() for rank in ranks or ())
    if ranks != list(range(len(ranks))):
        findings.add("ranks are not 0, 1, 2 and so on: publish the corpus, which numbers them anew", field="ranks")
    if fine_times(start_ms for start_ms, _ in places.values()):
        findings.add("times are finer than a microsecond: publish the corpus, which rounds them", field="start_ms")
    if called is not None:
        findings.see("corpus", called.name)
    if corpus.dump_manifest(places, called) != data:
        findings.add(NOT_OUR_BYTES)
    check_values(parsed.value, findings)
    check_start((start_ms for start_ms, _ in places.values()), "start_ms", findings)


TRACE_KINDS = (
    Kind("trace", lambda name, head: looks_like_ours(head), check_trace),
    Kind("journal", lambda name, head: _has_format(head, JOURNAL_FORMAT), check_journal),
    Kind("manifest", lambda name, head: _has_format(head, corpus.FORMAT_NAME), check_manifest),
)


def parsed_or_found(data: bytes, findings: FileFindings, *, line: int | None = None) -> Parsed | None:
    """Parse JSON; note what is odd about it, return None where it is none."""
    try:
        parsed = parse_strictly(data)
    except TraceError as error:
        findings.add(error.message, line=line)
        return None
    for what in parsed.oddities:
        findings.add(what, line=line if line is not None else _line_of_oddity(data))
    return parsed


def check_type(kind: Any, value: Any, findings: FileFindings, *, line: int | None = None, under: str = "") -> bool:
    """Note every field that the type does not allow; say whether all are allowed."""
    found = list(breaches(kind, value))
    for path, what in found:
        findings.add(what, line=line, field=".".join(filter(None, (under, path))))
    return not found


def check_values(value: Any, findings: FileFindings, *, line: int | None = None) -> None:
    """Note numbers that are times since 1970, and hex digits that spell a text; all names in it must be ours."""
    for path, what in (*epoch_like(value), *spelled_texts(value)):
        findings.add(what, line=line, field=path)


def check_start(times_ms: Any, field: str, findings: FileFindings) -> None:
    """Note times of which none is zero; what an agent tells late may stand before it."""
    known = {time_ms for time_ms in times_ms if time_ms is not None}
    if known and 0 not in known:
        findings.add("times do not start at zero: publish it, which rebases them", field=field)


def check_times(timed: Iterable[object], findings: FileFindings) -> None:
    """Note times of events or records that are finer than any recorder writes them."""
    items = list(timed)
    for name in TIMES:
        if fine_times(getattr(item, name, None) for item in items):
            findings.add("times are finer than a microsecond: publish it, which rounds them", field=name)


def see_sources(value: Any, findings: FileFindings) -> None:
    """List the names of tokenizers, which are the only ones in a trace that come from outside; note what is none."""
    names = sorted(set(_tokenizers(value)))
    if len(names) > MOST_TOKENIZERS:
        findings.add(f"names {len(names)} tokenizers, and a recording has {MOST_TOKENIZERS} at most")
    for name in names:
        if _A_PATH.search(name):
            findings.add("a tokenizer's name that reads as a path", field="token_source or source")
        else:
            findings.see("tokenizer", name)


def _tokenizers(value: Any) -> Iterator[str]:
    match value:
        case str() if value.startswith(TOKENIZER):
            yield value.removeprefix(TOKENIZER)
        case dict():
            for item in value.values():
                yield from _tokenizers(item)
        case list() | tuple():
            for item in value:
                yield from _tokenizers(item)


def _is_trace_allowed(value: Any, lines: list[int], findings: FileFindings) -> bool:
    if not isinstance(value, dict):
        findings.add("expected an object")
        return False
    header = {key: item for key, item in value.items() if key not in ("format", "events")}
    is_allowed = check_type(Trace, header, findings)
    if value.get("format") != {"name": FORMAT_NAME, "version": FORMAT_VERSION}:
        findings.add(f"expected the name {FORMAT_NAME!r} and version {FORMAT_VERSION}", field="format")
        is_allowed = False
    events = value.get("events")
    if not isinstance(events, list):
        findings.add("expected a list", field="events")
        return False
    for index, event in enumerate(events):
        line = lines[index] if len(lines) == len(events) else None
        is_allowed = _is_event_allowed(event, findings, line=line, under=f"events[{index}]") and is_allowed
    return is_allowed


def _is_event_allowed(event: Any, findings: FileFindings, *, line: int | None, under: str) -> bool:
    body = dict(event) if isinstance(event, dict) else {}
    name = body.pop("event_type", None)
    kind = _EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        findings.add("expected a kind of event that is known", line=line, field=f"{under}.event_type")
        return False
    if kind is Message and body.get("role") == "assistant" and not body.keys().isdisjoint(("call", "prompt_tokens")):
        kind = Call
        del body["role"]
    return check_type(kind, body, findings, line=line, under=under)


def _is_line_allowed(line: bytes, number: int, findings: FileFindings) -> bool:
    parsed = parsed_or_found(line, findings, line=number)
    if parsed is None:
        return False
    if not isinstance(parsed.value, dict):
        findings.add("expected an object", line=number)
        return False
    if number == 1:
        header = dict(parsed.value)
        if (header.pop("format", None), header.pop("version", None)) != (JOURNAL_FORMAT, JOURNAL_VERSION):
            findings.add(f"expected format {JOURNAL_FORMAT!r} and version {JOURNAL_VERSION}", line=number)
            return False
        return _is_allowed_and_checked(journal.JournalHeader, header, findings, number)
    body = dict(parsed.value)
    name = body.pop("record", None)
    kind = journal.RECORD_KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        findings.add("expected a kind of record that is known", line=number, field="record")
        return False
    return _is_allowed_and_checked(kind, body, findings, number)


def _is_allowed_and_checked(kind: type, body: dict[str, Any], findings: FileFindings, line: int) -> bool:
    is_allowed = check_type(kind, body, findings, line=line)
    if is_allowed:
        check_values(body, findings, line=line)
    return is_allowed


def _journal_bytes(recorded: journal.Journal) -> bytes:
    file = BytesIO()
    writer = journal_files.JournalWriter(file)
    writer.begin(recorded.header)
    writer.write(recorded.records)
    return file.getvalue()


def _event_lines(data: bytes) -> list[int]:
    return [number for number, line in enumerate(data.split(b"\n"), 1) if line.startswith(_EVENT_LINE)]


def _line_of_oddity(data: bytes) -> int | None:
    """Return the first line that is an odd value by itself, as the lines of a trace are."""
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            if parse_strictly(line.strip(b" ,\r")).oddities:
                return number
        except TraceError:
            continue
    return None


def _has_format(head: bytes, name: str) -> bool:
    return re.search(rb'"%b"' % re.escape(name.encode()), head.partition(b"\n")[0] + head[:200]) is not None


def _said(error: TraceError) -> str:
    """Return what a reader said of values that are all allowed, so that it may be shown."""
    where = f"event {error.event}: " if error.event is not None else ""
    return f"{where}{error.field + ': ' if error.field else ''}{error.message}"
