"""OTLP as `convert` writes it: in JSON or protobuf, from a moment on or up to now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from rotoscope.sdk.otlp.format import FORMAT
from rotoscope.sdk.otlp.writing import Clock, json_lines, protobuf
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.registry import Writable, WriteCorpus

_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime(1971, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""A span at zero is not valid, and times with all that a trace may last must fit into 63 bits of nanoseconds."""

Write: TypeAlias = Callable[[Sequence[Member], Fidelity, Clock], Iterator[bytes]]


def span_formats(started_at: str | None) -> tuple[Writable, ...]:
    """Return JSON and protobuf, where the first run began at `started_at` or, without one, the last ends as it is written.

    Raises UnusableInput where `started_at` is no time.
    """
    started_ns = None if started_at is None else _ns_since_1970(started_at)

    def written(write: Write) -> WriteCorpus:
        def write_corpus(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
            return write(members, fidelity, Clock(now_ns=time.time_ns(), started_ns=started_ns))

        return write_corpus

    return (
        replace(FORMAT, write_corpus=written(json_lines)),
        Writable(
            name="otlp-protobuf",
            title="OTLP in protobuf",
            suffix=".otlp.pb",
            write_corpus=written(protobuf),
            keeps_empty=FORMAT.keeps_empty,
        ),
    )


def _ns_since_1970(text: str) -> int:
    """Return a time of ISO 8601, which is UTC where it does not say."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UnusableInput("--started-at: expected a time such as 2026-01-31T09:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if not _FIRST <= moment <= _LAST:
        raise UnusableInput(f"--started-at: expected a time between {_FIRST.year} and {_LAST.year}")
    since = moment - _ZERO
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
