"""A span as it stands in a file of OTLP: typed and checked, with its attributes as Python values.

Attributes may hold all that an agent and a model said. They live here, in RAM, until a trace is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rotoscope.traces.errors import TraceError

Attributes: TypeAlias = Mapping[str, Any]
"""Values are strings, booleans, numbers, bytes, lists and mappings of those."""
Key: TypeAlias = tuple[str, str]
"""The ids of a trace and of a span in it."""

ERROR_STATUS = 2
TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
MOST_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened in a span."""

    name: str
    at_ns: int
    attributes: Attributes = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Span:
    """One span; times are nanoseconds since 1970."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    """Empty for a root."""
    name: str = field(default="", repr=False)
    start_ns: int
    end_ns: int | None
    """None for a span that had not ended when it was written."""
    attributes: Attributes = field(default_factory=dict, repr=False)
    events: Sequence[SpanEvent] = field(default=(), repr=False)
    is_error: bool = False
    has_all: bool = True
    """False where the exporter says that it left attributes or events out."""
    scope: str = ""
    """The instrumentation that made it."""
    resource: int = 0
    """Spans of one process and service have the same number."""
    line: int | None = None
    """Of the file, where it has lines."""

    @property
    def key(self) -> Key:
        return self.trace_id, self.span_id

    def text(self, *names: str) -> str:
        """Return the first attribute of these that is a string and not empty; empty where there is none."""
        values = (self.attributes.get(name) for name in names)
        return next((value for value in values if isinstance(value, str) and value), "")

    def error(self, name: str, expected: str) -> TraceError:
        """Return the error that says what is wrong with an attribute; it quotes nothing."""
        return TraceError(expected, line=self.line, field=f"span {self.span_id}: {name}")


def numbered(attributes: Attributes, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the items of a list that is written flat, as `prefix.0.role`, `prefix.1.role`, in their order."""
    items: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            number, _, rest = name[len(prefix) :].partition(".")
            if number.isdecimal() and len(number) < 9:
                items.setdefault(int(number), {})[rest] = value
    yield from (items[number] for number in sorted(items))
