"""What holds for the spans of every trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import corpora, traces

from rotoscope.sdk.otlp import conventions as names
from rotoscope.sdk.otlp.attributes import Value
from rotoscope.sdk.otlp.spans_of_trace import Span, lasts_ns, spans_of
from rotoscope.sdk.otlp.trace_of_spans import is_ours, trace_of_spans
from rotoscope.sdk.otlp.written_formats import span_formats
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.registry import Writable
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import Trace


@settings(max_examples=40)
@given(traces())
def test_the_trace_is_made_of_its_spans_again(trace: Trace) -> None:
    spans = spans_of(trace)

    assert is_ours(spans)
    assert trace_of_spans(spans[::-1]).trace == trace


@settings(max_examples=20)
@given(corpora(), st.sampled_from(span_formats("2026-01-31T09:00:00Z")), st.booleans())
def test_a_file_gives_its_traces_again_with_their_places(drawn: list[Trace], out: Writable, on_one_clock: bool) -> None:
    members = on_a_clock(drawn) if on_one_clock else [Member(name="", trace=trace) for trace in drawn]
    assert out.write_corpus is not None

    data = b"".join(out.write_corpus(members, Fidelity(), block_size=1))

    _, found = read_source(Source.of_bytes(data), Fidelity())
    assert [replace(member, name="") for member in found] == members


def on_a_clock(drawn: list[Trace]) -> list[Member]:
    """Return traces with places in a corpus: each began 0.1 ms after the one before, whose calls all came first."""
    ranks = count()
    return [
        Member(name="", trace=trace, start_ms=index * 0.1, ranks=tuple(next(ranks) for _ in trace.calls()))
        for index, trace in enumerate(drawn)
    ]


@settings(max_examples=40)
@given(traces())
def test_ids_are_unique_and_each_parent_stands_before_its_children(trace: Trace) -> None:
    spans = spans_of(trace)
    known: set[bytes] = set()

    for span in spans:
        assert (span.parent_id is None) == (not known)
        assert span.parent_id is None or span.parent_id in known
        assert span.span_id not in known
        known.add(span.span_id)
    assert all(any(span.span_id) and any(span.trace_id) for span in spans)
    assert len({span.trace_id for span in spans}) == 1
    assert {len(span.span_id) for span in spans} == {8}


@settings(max_examples=40)
@given(traces())
def test_every_span_and_event_lies_within_its_parent(trace: Trace) -> None:
    spans = spans_of(trace)
    by_id = {span.span_id: span for span in spans}

    for span in spans:
        around = by_id[span.parent_id] if span.parent_id else span
        assert 0 <= around.start_ns <= span.start_ns <= span.end_ns <= around.end_ns
        assert all(span.start_ns <= event.at_ns <= span.end_ns for event in span.events)
    assert spans[0].end_ns == lasts_ns(trace)


@settings(max_examples=40)
@given(traces())
def test_a_span_has_the_times_that_the_trace_knows(trace: Trace) -> None:
    by_event = {span.attributes.get(names.EVENT): span for span in spans_of(trace)}

    for index, event in enumerate(trace.events):
        at_ms, duration_ms = getattr(event, "at_ms", None), getattr(event, "duration_ms", None)
        if at_ms is not None:
            assert by_event[index].start_ns == at_ms * 1e6
        if duration_ms is not None:
            assert by_event[index].end_ns - by_event[index].start_ns == duration_ms * 1e6


@settings(max_examples=40)
@given(traces())
def test_spans_hold_no_word_that_is_not_of_a_closed_set_or_a_dense_id(trace: Trace) -> None:
    for word in words_of(spans_of(trace)):
        assert WORDS.fullmatch(word), word


WORDS = re.compile(
    r"(gen_ai|rotoscope)\.[a-z_.]+|error\.type|[0-9a-f]{8}(-\d+)?|[st]?\d+(\.\d+)?|(tool|domain)\d+"
    r"|(chat|execute_tool|invoke_agent|wait|parallel|embeddings|root|function|unknown|run|branch|call|tool_call"
    r"|message|embedding|parallel_end|drop_kv_cache|system|group|user|usage|text|ids|client|time|own|prefix|rewind|think"
    r"|stop|internal)( .+)?"
)


def words_of(spans: list[Span]) -> Iterator[str]:
    for span in spans:
        yield from (span.name, span.kind, *span.attributes, *texts(*span.attributes.values()))
        for event in span.events:
            yield from (event.name, *event.attributes, *texts(*event.attributes.values()))


def texts(*values: Value) -> Iterator[str]:
    for value in values:
        if isinstance(value, tuple):
            yield from texts(*value)
        elif isinstance(value, str):
            yield value
