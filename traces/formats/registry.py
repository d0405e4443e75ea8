"""The trace formats that are known: what tells each from the others, how it is read and how it is written.

One entry a format. Readers and writers are imported when they are used: a run of ours needs none of the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats import heads
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.heads import Head
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import FORMAT_NAME, Trace
from rotoscope.traces.reader import loads, looks_like_ours
from rotoscope.traces.writer import dumps

Read: TypeAlias = Callable[[Source, Fidelity], list[Member]]
"""Raises TraceError, with the name of the file, where it is damaged."""


class WriteTrace(Protocol):
    """Return the bytes of a file that holds one trace; `block_size` is for formats that have blocks."""

    def __call__(self, trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes: ...


class WriteCorpus(Protocol):
    """Yield the pieces of a file that holds many traces; `block_size` is for formats that have blocks."""

    def __call__(self, members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Writable:
    """A format that traces can be written in."""

    name: str
    """As `convert --to` takes it."""
    title: str
    """For people."""
    suffix: str
    """Of the files that are written."""
    write_trace: WriteTrace | None = None
    """Writes a file that holds one trace."""
    write_corpus: WriteCorpus | None = None
    """Writes a file that holds many, in pieces; used even for one where it is given."""
    keeps_empty: bool = False
    """Whether a file that holds many holds those without calls too."""
    block_size: int | None = None
    """Tokens a block as the field writes it, which an option may change; None where the format has no blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(Writable):
    """A trace format that can be read, and where it has a writer also written."""

    told_by: str
    """What `looks_like` looks for, for people: keys of the file's first JSON object."""
    looks_like: Callable[[Head], bool]
    read: Read


AnyWritable = TypeVar("AnyWritable", bound=Writable)


def all_formats() -> tuple[Format, ...]:
    """Return the formats of this table, then those of the modules that the package names beside it.

    What those need is not traces' to import: a reader of OTLP plays what it reads to the recorder.
    """
    package = import_module("rotoscope")
    return (*FORMATS, *(import_module(name).FORMAT for name in package.FORMAT_MODULES))


def format_of(head: Head) -> Format | None:
    """Return the format of a file by its beginning, None where it is none that is known."""
    found = next((known for known in FORMATS if known.looks_like(head)), None)
    return found or next((known for known in all_formats() if known.looks_like(head)), None)


def format_named(name: str) -> Format:
    """Return a format that can be written; raise UnusableInput with the names there are for any other."""
    return named(name, written_formats())


def written_formats() -> list[Format]:
    """Return the formats of this list that can be written."""
    return [known for known in FORMATS if known.write_trace or known.write_corpus]


def named(name: str, formats: Sequence[AnyWritable]) -> AnyWritable:
    """Return the one of that name; raise UnusableInput with the names there are for any other."""
    names = {known.name: known for known in formats}
    if name not in names:
        raise UnusableInput(f"no format {name!r} to write: choose one of {', '.join(names)}")
    return names[name]


def _single(trace: Trace) -> list[Member]:
    return [Member(name="", trace=trace)]


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"rotoscope.traces.formats.{module}"), name)


def _reader(module: str, name: str) -> Read:
    """Return a reader that is imported when it is used, as the two kinds of writers below."""

    def read(source: Source, fidelity: Fidelity) -> list[Member]:
        members: list[Member] = _function(module, name)(source, fidelity)
        return members

    return read


def _trace_writer(module: str, name: str) -> WriteTrace:
    def write(trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes:
        data: bytes = _function(module, name)(trace, fidelity, block_size=block_size)
        return data

    return write


def _corpus_writer(module: str, name: str) -> WriteCorpus:
    def write(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
        pieces: Iterator[bytes] = _function(module, name)(members, fidelity, block_size=block_size)
        return pieces

    return write


def _read_ours(source: Source, fidelity: Fidelity) -> list[Member]:
    return _single(loads(source.whole(), path=source.name))


def _write_ours(trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes:
    return dumps(trace)


def _read_trtllm(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read TensorRT-LLM's events, or ours where another program has put the keys of the file in another order."""
    from rotoscope.traces.formats.trtllm import read_trtllm

    data = source.whole()
    return _single(loads(data, path=source.name) if _OURS.search(data) else read_trtllm(data, source.name, fidelity))


def _write_trtllm(trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes:
    from rotoscope.traces.formats.trtllm_writer import write_trace

    return write_trace(trace, fidelity)


_OURS = re.compile(rb'"format"\s*:\s*\{[^{}]*"%b"' % re.escape(FORMAT_NAME.encode()))
"""No content can look like it: quotes within strings are escaped."""

FORMATS: tuple[Format, ...] = (
    Format(
        name="rotoscope",
        title="Rotoscope",
        told_by="`format` with its name",
        looks_like=lambda head: looks_like_ours(head.data),
        read=_read_ours,
        suffix=".trace.json",
        write_trace=_write_ours,
    ),
    Format(
        name="trtllm",
        title="TensorRT-LLM",
        told_by="`events` with `event_type`",
        looks_like=heads.is_trtllm,
        read=_read_trtllm,
        suffix=".trace.json",
        write_trace=_write_trtllm,
    ),
    Format(
        name="weka",
        title="Weka",
        told_by="`requests` with `hash_ids`, one session or one a line",
        looks_like=heads.is_weka,
        read=_reader("weka", "read"),
        suffix=".json",
        write_trace=_trace_writer("weka_writer", "write_trace"),
        block_size=64,
    ),
    Format(
        name="dynamo",
        title="Dynamo request trace",
        told_by="`schema` with a name that begins with `dynamo.request.trace` or `dynamo.agent.trace`",
        looks_like=heads.is_dynamo,
        read=_reader("dynamo", "read"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("dynamo_writer", "write_corpus"),
        block_size=64,
    ),
    Format(
        name="tracelab",
        title="TraceLab",
        told_by="`session_id` and `input_tokens_total`",
        looks_like=heads.is_tracelab,
        read=_reader("tracelab", "read"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("tracelab_writer", "write_corpus"),
    ),
    Format(
        name="tracelab-csv",
        title="TraceLab replay CSV",
        told_by="the columns `round_idx`, `prefix_len`, `input_len` and `output_len`",
        looks_like=heads.is_tracelab_csv,
        read=_reader("tracelab_csv", "read"),
        suffix=".csv",
        write_corpus=_corpus_writer("tracelab_csv_writer", "write_corpus"),
    ),
    Format(
        name="vcr",
        title="vllm-vcr",
        told_by="`meta` alone in the first line, or `prompt_tokens`, `output_tokens` and `ttft_ms`",
        looks_like=heads.is_vcr,
        read=_reader("vcr", "read"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("vcr_writer", "write_corpus"),
        block_size=16,
    ),
    Format(
        name="bailian",
        title="Bailian",
        told_by="`chat_id` and `input_length`",
        looks_like=lambda head: {"chat_id", "input_length"} <= head.keys,
        read=_reader("mooncake", "read_bailian"),
        suffix=".jsonl",
    ),
    Format(
        name="mooncake-agentic-v2",
        title="agentic Mooncake version 2",
        told_by="`schema` with the name `dynamo.agentic_mooncake`, or `schema` and `hash_id_scope`",
        looks_like=heads.is_plays,
        read=_reader("mooncake_plays", "read_plays"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("mooncake_plays_writer", "write_plays"),
        block_size=64,
    ),
    Format(
        name="mooncake-agentic",
        title="agentic Mooncake",
        told_by="as Mooncake, with `request_id`",
        looks_like=lambda head: "request_id" in head.keys and heads.is_mooncake(head),
        read=_reader("mooncake", "read_mooncake"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("mooncake_agentic_writer", "write_mooncake_agentic"),
        block_size=512,
    ),
    Format(
        name="mooncake-delta",
        title="Mooncake with sessions of increments",
        told_by="as Mooncake, with `is_delta`",
        looks_like=lambda head: "is_delta" in head.keys and heads.is_mooncake(head),
        read=_reader("mooncake", "read_mooncake"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("mooncake_delta_writer", "write_mooncake_delta"),
        block_size=512,
    ),
    Format(
        name="mooncake-sessions",
        title="Mooncake with sessions",
        told_by="as Mooncake, with `session_id`",
        looks_like=lambda head: "session_id" in head.keys and heads.is_mooncake(head),
        read=_reader("mooncake", "read_mooncake"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("mooncake_sessions_writer", "write_mooncake_sessions"),
        block_size=512,
    ),
    Format(
        name="mooncake",
        title="Mooncake",
        told_by="`input_length`, or `input_tokens`",
        looks_like=heads.is_mooncake,
        read=_reader("mooncake", "read_mooncake"),
        suffix=".jsonl",
        write_corpus=_corpus_writer("mooncake_writer", "write_mooncake"),
        block_size=512,
    ),
)
"""In the order in which they are tried."""
