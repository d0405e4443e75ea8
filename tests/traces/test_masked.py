from __future__ import annotations

from dataclasses import replace

import pytest

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Prefix, Trace
from rotoscope.traces.analysis.statistics import describe
from rotoscope.traces.errors import TraceError
from rotoscope.traces.masked import is_volatile, masked
from rotoscope.traces.reader import loads
from rotoscope.traces.validation import validate
from rotoscope.traces.writer import dumps


def dated() -> Trace:
    """Three calls; a date at token 10 keeps each from sharing the 100 tokens behind it."""
    second = replace(make_call(1, 110, prefix=Prefix(0, 10, "text")), masked=Prefix(0, 100, "estimate"))
    third = replace(make_call(2, 120, prefix=Prefix(0, 10, "text")), masked=Prefix(1, 110, "estimate"))
    return trace_of(make_call(0, 100), second, third)


def test_a_trace_says_what_would_be_shared_without_volatile_lines() -> None:
    trace = dated()
    validate(trace)

    assert is_volatile(trace)
    assert not is_volatile(masked(trace))
    assert [call.prefix.tokens for call in masked(trace).calls()] == [0, 100, 110]
    assert masked(trace).volatile == "masked"
    validate(masked(trace))


def test_it_is_read_as_it_was_written() -> None:
    assert loads(dumps(dated())) == dated()


def test_a_masked_prefix_keeps_the_rules_of_prefixes() -> None:
    wrong = replace(make_call(1, 110), masked=Prefix(1, 100, "estimate"))

    with pytest.raises(TraceError, match="expected a call before call 1"):
        validate(trace_of(make_call(0, 100), wrong))


def test_both_hit_rates_are_told() -> None:
    statistics = describe(dated())

    assert statistics.hit_rate() == pytest.approx(20 / 330)
    assert statistics.masked_hit_tokens == 210
    assert describe(masked(dated())).masked_hit_tokens is None
