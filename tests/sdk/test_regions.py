from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sdk_doubles import BrokenRecording, HeardRecording, HeardRun, Spans, provided_by, recorded_by

from rotoscope import current_run, parallel, trace_agent, trace_tool, wait
from rotoscope.recorder.marks import BranchMark, Mark, ToolMark, WaitMark
from rotoscope.sdk import forks
from rotoscope.sdk.scopes import Line, Scope, enter, leave
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


@contextmanager
def inside_of_a_run() -> Iterator[list[Mark]]:
    run = HeardRun()
    token = enter(Scope(Line(run)))
    yield run.marks
    leave(token)


@pytest.mark.parametrize("kind", ["secret reason", ["secret reason"], None, 7])
def test_a_wait_of_a_kind_that_there_is_not_is_told_as_thinking(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    with inside_of_a_run() as marks, wait(kind):
        pass

    assert [mark.kind for mark in marks if isinstance(mark, WaitMark)] == ["think"]
    assert "no known kind" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("kind", ["think", "human", "agent"])
def test_a_wait_is_told_by_its_kind(kind: Any) -> None:
    with inside_of_a_run() as marks, wait(kind):
        pass

    assert [mark.kind for mark in marks if isinstance(mark, WaitMark)] == [kind]


@trace_agent
def forks_behind_a_call() -> None:
    with parallel() as fan, fan.branch():
        run = current_run()
        assert run is not None
        run.headers()
        inner()


def test_agent_behind_a_call_in_a_branch_has_a_line_of_its_own() -> None:
    recording = HeardRecording()

    with recorded_by(recording):
        forks_behind_a_call()

    assert sum(isinstance(mark, BranchMark) for mark in recording.runs[0].marks) == 2


@trace_tool
def tool_that_forks() -> None:
    with parallel() as fan, fan.branch():
        pass


@trace_agent
def agent_of_a_tool_that_forks() -> None:
    tool_that_forks()


def test_tool_that_forks_is_none() -> None:
    recording = HeardRecording()

    with recorded_by(recording):
        agent_of_a_tool_that_forks()

    assert not [mark for mark in recording.runs[0].marks if isinstance(mark, ToolMark)]


def test_block_that_a_forked_process_leaves_ends_in_the_one_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with inside_of_a_run() as marks, monkeypatch.context() as forked, parallel(), wait():
        forked.setattr(forks, "depth", forks.depth + 1)

    assert marks == []
