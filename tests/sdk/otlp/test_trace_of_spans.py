from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rotoscope.sdk.otlp import conventions as names
from rotoscope.sdk.otlp.attributes import Attributes
from rotoscope.sdk.otlp.spans_of_trace import Span, spans_of
from rotoscope.sdk.otlp.trace_of_spans import is_ours, trace_of_spans
from rotoscope.testing import make_trace
from rotoscope.traces import TraceError

TRACE = make_trace(turns=2)


def test_the_place_in_a_corpus_comes_back() -> None:
    spans = spans_of(TRACE, header={names.START_MS: 12.5, names.RANKS: (0, 3)})

    member = trace_of_spans(spans, name="a")

    assert (member.name, member.start_ms, member.ranks, member.trace) == ("a", 12.5, (0, 3), TRACE)


def test_spans_without_a_run_of_ours_are_those_of_others() -> None:
    assert not is_ours(spans_of(TRACE)[1:])
    with pytest.raises(TraceError, match="the spans of one run, found 0"):
        trace_of_spans(spans_of(TRACE)[1:])


def test_a_missing_span_is_told() -> None:
    spans = [span for span in spans_of(TRACE) if not span.name.startswith("execute_tool")]

    with pytest.raises(TraceError, match=r"x\.jsonl: expected 6 events, found 5: some of its spans are missing"):
        trace_of_spans(spans, name="x.jsonl")


def test_attributes_of_others_are_left_alone() -> None:
    spans = changed(lambda attributes: {**attributes, "http.request.method": "POST", "team": "a"})

    assert trace_of_spans(spans).trace == TRACE


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (names.EVENT, "x", "rotoscope.event: expected an integer, found a string"),
        (names.EVENT_TYPE, "drawing", "rotoscope.event_type: expected one of message, call"),
        ("rotoscope.prefix", 1, "expected either a value or fields within"),
        ("rotoscope.colour", 1, "colour: unknown field"),
        ("gen_ai.usage.input_tokens", -1, "prompt_tokens: expected greater than 0"),
        ("rotoscope.at_ms", b"1", "expected attributes that JSON has a form for"),
    ],
)
def test_what_was_changed_is_told(name: str, value: object, expected: str) -> None:
    def change(attributes: Attributes) -> Attributes:
        is_call = attributes[names.EVENT_TYPE] == "call"
        others: dict[str, Any] = {name: value}
        return others | attributes | others if is_call else attributes

    with pytest.raises(TraceError, match=expected):
        trace_of_spans(changed(change))


def test_a_number_of_events_that_is_none_is_told_and_not_quoted() -> None:
    spans = changed(lambda told: {**told, names.EVENTS: "a canary"} if names.EVENTS in told else told)

    with pytest.raises(TraceError) as caught:
        trace_of_spans(spans)

    assert str(caught.value) == "trace: rotoscope.trace.events: expected an integer, found a string"


def changed(change: Callable[[Attributes], Attributes]) -> list[Span]:
    return [replace(span, attributes=change(span.attributes)) for span in spans_of(TRACE)]
