from __future__ import annotations

import logging

import pytest
from sdk_doubles import BrokenRecording, Spans, provided_by, recorded_by

from rotoscope import parallel, trace_agent, trace_tool, wait
from rotoscope.sdk.spans import counts


@trace_tool
def step() -> int:
    return 1


@trace_agent(name="inner")
def inner() -> int:
    return step()


@trace_agent(name="agent")
def agent() -> int:
    with parallel("fan") as fan, fan.branch("branch"):
        step()
    inner()
    with wait("human"):
        return step()


def test_recording_that_is_broken_changes_nothing_and_takes_no_span_along(caplog: pytest.LogCaptureFixture) -> None:
    spans, failed_before, lost_before, open_before = Spans(), counts.failed, counts.lost, counts.open

    with recorded_by(BrokenRecording()), provided_by(spans.provider), caplog.at_level(logging.WARNING):
        assert agent() == 1

    assert counts.failed > failed_before
    assert (counts.lost, counts.open) == (lost_before, open_before)
    assert len(spans.ended) == 7
    assert spans.parent_of("parallel fan") == "invoke_agent agent"
    assert "broken" not in caplog.text


def test_error_in_a_block_is_told_of_its_spans_and_passes() -> None:
    spans = Spans()

    with provided_by(spans.provider), pytest.raises(ValueError, match="a secret"), parallel("fan") as fan, fan.branch():
        raise ValueError("a secret")

    assert [(span.name, (span.attributes or {})["error.type"]) for span in spans.ended] == [
        ("branch", "ValueError"),
        ("parallel fan", "ValueError"),
    ]


def test_blocks_outside_of_every_agent_do_nothing() -> None:
    with parallel() as fan, fan.branch(), wait():
        assert step() == 1
