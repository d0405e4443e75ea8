from __future__ import annotations

from dataclasses import replace

import pytest

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Prefix, SharedPrefix, Trace
from rotoscope.traces.analysis.statistics import ChangingLines, describe
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
    assert statistics.changing == ChangingLines(sent=20, masked=210)
    assert describe(masked(dated())).changing is None


def test_a_system_prompt_that_changes_is_not_taken_for_cached() -> None:
    prompts = [SharedPrefix(name, "system", 100) for name in ("s0", "s1")]
    first = make_call(0, 110, prefix=Prefix("s0", 100, "exact"))
    second = make_call(1, 110, prefix=Prefix("s1", 100, "exact"), masked=Prefix(0, 100, "estimate"))
    trace = trace_of(first, second, shared_prefixes=tuple(prompts))

    statistics = describe(trace)

    assert statistics.hit_rate() == pytest.approx(200 / 220)
    assert statistics.changing == ChangingLines(sent=0, masked=100)
