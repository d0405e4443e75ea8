"""OTLP among the formats that traces are read from."""

from __future__ import annotations

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.registry import Format, Head
from rotoscope.traces.formats.source import Source


def _looks_like_otlp(head: Head) -> bool:
    from rotoscope.sdk.otlp.reading import is_json, is_protobuf

    return is_json(head.data, head.keys) or is_protobuf(head.data)


def _read(source: Source, fidelity: Fidelity) -> list[Member]:
    from rotoscope.sdk.otlp.traces import read

    return read(source, fidelity)


FORMAT = Format(
    name="otlp",
    title="OTLP",
    told_by="`resourceSpans`, in JSON, or spans in protobuf",
    looks_like=_looks_like_otlp,
    read=_read,
    suffix=".otlp.jsonl",
)
