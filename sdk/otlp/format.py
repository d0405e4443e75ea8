"""OTLP among the formats that traces are read from and written in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.heads import Head
from rotoscope.traces.formats.registry import Format
from rotoscope.traces.formats.source import Source


def _looks_like_otlp(head: Head) -> bool:
    from rotoscope.sdk.otlp.protobuf import is_protobuf
    from rotoscope.sdk.otlp.reading import is_json

    return is_json(head.data, head.keys) or is_protobuf(head.data)


def _read(source: Source, fidelity: Fidelity) -> list[Member]:
    from rotoscope.sdk.otlp.traces import read

    return read(source, fidelity)


def _write(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Write runs of which nobody says when they began."""
    from rotoscope.sdk.otlp.writing import Clock, json_lines

    return json_lines(members, fidelity, Clock(now_ns=time.time_ns()))


FORMAT = Format(
    name="otlp",
    title="OTLP",
    told_by="`resourceSpans`, in JSON, or spans in protobuf",
    looks_like=_looks_like_otlp,
    read=_read,
    suffix=".otlp.jsonl",
    write_corpus=_write,
    keeps_empty=True,
)
