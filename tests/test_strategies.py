from __future__ import annotations

from hypothesis import given
from strategies import corpora, traces

from rotoscope.traces import normalise
from rotoscope.traces.model import Trace
from rotoscope.traces.validation import validate


@given(traces())
def test_drawn_traces_are_valid_and_in_normal_form(trace: Trace) -> None:
    validate(trace)

    assert normalise(trace) == trace


@given(corpora())
def test_traces_of_a_corpus_are_valid(corpus: list[Trace]) -> None:
    for trace in corpus:
        validate(trace)
