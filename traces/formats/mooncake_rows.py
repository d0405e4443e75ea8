"""The rows of a Mooncake file as they stand in it, of whatever dialect: typed and checked, times in milliseconds.

- Mooncake: `timestamp`, `input_length`, `output_length`, `hash_ids`.
- AIPerf adds `session_id` and `delay`; its rows that hold text instead of lengths are refused. Lengths and ids of later
  turns may be those of whole prompts or of what the turn adds (`mooncake_increments.py`).
- agentic Mooncake (Dynamo) adds `request_id`, `wait_for`, `tool_wait_ms` and `tool_events`; its other names for the
  common fields are known too.
- Bailian adds `chat_id` and `parent_chat_id`, and counts seconds.

Content is dropped where it stands beside lengths; ids that may be names are compared and never kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fields import Fields, Notes
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import MAX_COUNT
from rotoscope.traces.reader import kind_of

USUAL_BLOCK = 512
BAILIAN_BLOCK = 16
LATEST_MS = 1e16
"""Of a clock that may count from anywhere, 1970 for instance."""
NO_PARENT = -1

_TEXTS = ("text_input", "messages", "payload")
_COMMON_KEYS = ("input_length", "input_tokens", "output_length", "output_tokens", "hash_ids", "model")
_KEYS = {
    "mooncake": frozenset(
        (
            *(*_COMMON_KEYS, "timestamp", "created_time", "session_id", "delay", "delay_ms", "request_id", "wait_for"),
            *("branches", "prefix_reset", "is_delta", "request_kind", "tool_wait_ms", "tool_events"),
        )
    ),
    "bailian": frozenset((*_COMMON_KEYS, "timestamp", "chat_id", "parent_chat_id", "turn")),
}
_LEFT_OUT = {
    **dict.fromkeys((*_TEXTS, "tools", "extra"), "content beside the lengths (dropped)"),
    "output_token_ids": "token ids (dropped)",
    "type": "type of a request (dropped)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpan:
    """A tool that ran before a request."""

    tool_class: str
    """Only to tell tools apart."""
    started_ms: float
    """Since 1970."""
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """What a row of agentic Mooncake says beside the request."""

    request_id: str
    wait_for: tuple[str, ...]
    """The requests that must have ended."""
    branches: tuple[str, ...] = ()
    """Requests of other sessions that wait for this one."""
    tool_wait_ms: float = 0.0
    tools: tuple[ToolSpan, ...] = ()
    play: str | None = None
    """In version 2: the run that it belongs to."""
    duration_ms: float | None = None
    """In version 2: how long the answer took."""

    @property
    def is_linked(self) -> bool:
        """Whether it says more than the name of the request."""
        return bool(self.wait_for or self.branches or self.tools or self.tool_wait_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One request to the model."""

    line: int
    at_ms: float | None
    """On the clock of the file."""
    prompt_tokens: int
    completion_tokens: int
    block_ids: Sequence[int]
    """Empty where the row does not say what its prompt shares."""
    model: str | None
    session: str | None
    delay_ms: float | None
    """From the end of what it waits for to the request."""
    chat: tuple[int, int] | None = None
    """Of Bailian: its id and that of the turn before it."""
    workflow: Workflow | None = None
    is_whole: bool = False
    """Whether it says that its length is that of the whole prompt: AIPerf's rows know no request nor reset."""
    is_delta: bool = False
    """Whether it says that it is a row of what turns add, as we write them."""

    def error(self, message: str, field: str = "") -> TraceError:
        """Return the error that says what is wrong with the row."""
        return TraceError(message, line=self.line, field=field)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """A whole file."""

    rows: list[SourceRow]
    block_size: int
    notes: Notes


def parse_rows(source: Source, *, dialect: str) -> SourceRows:
    """Parse the rows of a file of dialect `mooncake` or `bailian`; raise TraceError where it is damaged."""
    notes = Notes()
    sizes = _BlockSizes(BAILIAN_BLOCK if dialect == "bailian" else USUAL_BLOCK)
    rows = []
    for line, value in source.lines():
        fields = Fields.of(value, line=line)
        notes.left_out(fields, _LEFT_OUT, _KEYS[dialect])
        row = _bailian_row(fields, line) if dialect == "bailian" else _row(fields, line)
        if row.block_ids:
            sizes.add(row)
        rows.append(row)
    return SourceRows(rows, sizes.best(), notes)


def _row(fields: Fields, line: int) -> SourceRow:
    _refuse_texts(fields)
    if "chat_id" in fields:
        raise fields.error("chat_id", "expected rows of one dialect, found one of Bailian's among others")
    if "play_id" in fields:
        raise fields.error(
            "play_id", "of agentic Mooncake version 2, whose header is not there: expected it as first line"
        )
    return SourceRow(
        line=line,
        at_ms=_clock_ms(fields, either(fields, "timestamp", "created_time")),
        prompt_tokens=fields.count(either(fields, "input_length", "input_tokens"), least=1),
        completion_tokens=fields.count(either(fields, "output_length", "output_tokens")),
        block_ids=block_ids_of(fields),
        model=fields.optional_text("model"),
        session=fields.optional_text("session_id"),
        delay_ms=fields.optional_milliseconds(either(fields, "delay", "delay_ms")),
        workflow=_workflow(fields),
        is_whole="prefix_reset" in fields or "request_id" in fields,
        is_delta="is_delta" in fields and fields.get("is_delta") is True,
    )


def _bailian_row(fields: Fields, line: int) -> SourceRow:
    parent = _identity(fields, "parent_chat_id") if "parent_chat_id" in fields else NO_PARENT
    fields.get("timestamp")
    return SourceRow(
        line=line,
        at_ms=_clock_ms(fields, "timestamp", unit_ms=1000.0),
        prompt_tokens=fields.count("input_length", least=1),
        completion_tokens=fields.count("output_length"),
        block_ids=block_ids_of(fields),
        model=fields.optional_text("model"),
        session=None,
        delay_ms=None,
        chat=(_identity(fields, "chat_id"), parent),
    )


def _refuse_texts(fields: Fields) -> None:
    text = next((name for name in _TEXTS if name in fields), None)
    if text is not None and "input_length" not in fields and "input_tokens" not in fields:
        raise fields.error(text, "holds text in place of lengths: expected input_length, output_length and hash_ids")


def _workflow(fields: Fields) -> Workflow | None:
    if "request_id" not in fields:
        for name in ("wait_for", "branches", "tool_wait_ms", "tool_events"):
            if name in fields:
                raise fields.error("request_id", f"required where a row has {name}, but not there")
        return None
    return Workflow(
        request_id=fields.text("request_id"),
        wait_for=fields.texts("wait_for"),
        branches=fields.texts("branches"),
        tool_wait_ms=fields.optional_milliseconds("tool_wait_ms") or 0.0,
        tools=tuple(_tools(fields)),
    )


def _tools(fields: Fields) -> Iterator[ToolSpan]:
    for index, value in enumerate(fields.items("tool_events") if "tool_events" in fields else ()):
        tool = Fields.of(value, place=f"tool_events[{index}]", line=fields.line)
        started_ms = _clock_ms(tool, "started_at_unix_ms")
        if started_ms is None:
            raise tool.error("started_at_unix_ms", "required, but not there")
        yield ToolSpan(
            tool_class=tool.optional_text("tool_class") or "",
            started_ms=started_ms,
            duration_ms=tool.milliseconds("duration_ms"),
        )


def either(fields: Fields, name: str, alias: str) -> str:
    """Return under which of its two names a field is there, the first if it is not."""
    return alias if alias in fields and name not in fields else name


def _clock_ms(fields: Fields, name: str, *, unit_ms: float = 1.0) -> float | None:
    if name not in fields:
        return None
    value = fields.get(name)
    if type(value) not in (int, float):
        raise fields.error(name, f"expected a number, found {kind_of(value)}")
    if not 0 <= value <= LATEST_MS / unit_ms:
        raise fields.error(name, f"expected a time from 0 to {LATEST_MS / unit_ms:.0e}")
    return round(float(value * unit_ms), 3)


def block_ids_of(fields: Fields) -> Sequence[int]:
    return packed(fields.integers("hash_ids") if "hash_ids" in fields else ())


def packed(ids: Sequence[int]) -> Sequence[int]:
    """Return ids in as little room as they need: there are millions in some files."""
    try:
        return array("q", ids)
    except OverflowError:
        return ids


def _identity(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if type(value) is not int:
        raise fields.error(name, f"expected an integer, found {kind_of(value)}")
    return value


@dataclass(slots=True)
class _BlockSizes:
    """Which block sizes explain how many ids the rows have: one for each block, or for each whole block."""

    usual: int
    with_partial: range = range(1, MAX_COUNT + 1)
    whole_only: range = range(1, MAX_COUNT + 1)

    def add(self, row: SourceRow) -> None:
        """Take a row into account; raise TraceError where no size fits it and those before it."""
        tokens, ids = row.prompt_tokens, len(row.block_ids)
        most = (tokens - 1) // (ids - 1) if ids > 1 else MAX_COUNT
        with_partial = _both(self.with_partial, range(-(-tokens // ids), most + 1))
        whole_only = _both(self.whole_only, range(tokens // (ids + 1) + 1, tokens // ids + 1))
        if not with_partial and not whole_only:
            raise row.error(
                f"expected as many as {tokens} tokens have blocks of {self.best()}, found {ids}", "hash_ids"
            )
        self.with_partial, self.whole_only = with_partial, whole_only

    def best(self) -> int:
        """Return the usual size where it fits, else a power of two that does, else the smallest."""
        fitting = [sizes for sizes in (self.with_partial, self.whole_only) if sizes]
        if any(self.usual in sizes for sizes in fitting):
            return self.usual
        powers = (1 << (sizes.start - 1).bit_length() for sizes in fitting)
        smallest = fitting[0].start
        return next((power for power, sizes in zip(powers, fitting, strict=True) if power in sizes), smallest)


def _both(a: range, b: range) -> range:
    return range(max(a.start, b.start), min(a.stop, b.stop))
