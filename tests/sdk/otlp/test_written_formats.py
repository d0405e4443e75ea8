from __future__ import annotations

import json
import time

import pytest

from rotoscope.sdk.otlp.written_formats import span_formats
from rotoscope.testing import make_trace
from rotoscope.traces import UnusableInput
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity

TRACE = Member(name="0", trace=make_trace(call_ms=100.0))


def started_ns(started_at: str | None) -> int:
    """Return when the root of a trace begins in JSON."""
    as_json = span_formats(started_at)[0]
    assert as_json.write_corpus is not None
    [line] = as_json.write_corpus([TRACE], Fidelity(), block_size=1)
    return int(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["startTimeUnixNano"])


@pytest.mark.parametrize(
    ("started_at", "seconds"),
    [
        ("1971-01-01", 31_536_000),
        ("2026-01-31T09:00:00Z", 1_769_850_000),
        ("2026-01-31T09:00:00", 1_769_850_000),
        ("2026-01-31 10:00:00+01:00", 1_769_850_000),
        ("2026-01-31T09:00:00.000001Z", 1_769_850_000.000001),
    ],
)
def test_a_run_begins_when_asked(started_at: str, seconds: float) -> None:
    assert started_ns(started_at) // 1000 == round(seconds * 1e6)


@pytest.mark.parametrize("started_at", ["yesterday", "1970-01-01", "2500-01-01", ""])
def test_what_is_no_time_is_refused(started_at: str) -> None:
    with pytest.raises(UnusableInput, match="--started-at: expected a time"):
        span_formats(started_at)


def test_without_a_time_it_ends_as_it_is_written() -> None:
    before = time.time_ns()

    assert before <= started_ns(None) + 100_000_000 <= time.time_ns()
