from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rotoscope.recorder.recorded_run import Finished, begin_in
from rotoscope.recorder.telling import about, about_in_one_line
from rotoscope.testing import make_trace
from rotoscope.traces import Call


def test_run_without_calls_has_nothing_to_tell(tmp_path: Path) -> None:
    finished = begin_in(tmp_path, None).finish()

    assert about(finished) == []
    assert about_in_one_line(finished) == "nothing was recorded"


def test_trace_that_is_elsewhere_is_told_with_the_reason(tmp_path: Path) -> None:
    run, trace = begin_in(tmp_path, None), make_trace()
    run.finish()
    finished = Finished(run, trace, tmp_path / "x.trace.json", "the folder is full")

    assert about(finished)[-2:] == ["the folder is full", f"trace: {tmp_path / 'x.trace.json'}"]
    assert about_in_one_line(finished).endswith(f": {tmp_path / 'x.trace.json'} (the folder is full)")


def test_what_agents_lost_is_told_with_the_trace_alone(tmp_path: Path) -> None:
    run, trace, path = begin_in(tmp_path, None), make_trace(), tmp_path / "x.trace.json"
    run.finish()
    run.lost.update(marks=3, spans=1)
    lost = "in the agent: marks that did not reach the gateway: 3; spans that were lost: 1"

    assert about(Finished(run, trace, path, ""))[-2:] == [lost, f"trace: {path}"]
    assert about_in_one_line(Finished(run, trace, path, "")).endswith(f"{path} ({lost})")
    assert about_in_one_line(Finished(run, trace, path, "full")).endswith(f"{path} (full; {lost})")
    assert about(Finished(run, None, None, "")) == []


def test_one_line_tells_how_calls_ended(tmp_path: Path) -> None:
    run, trace = begin_in(tmp_path, None), make_trace(turns=2)
    run.finish()
    events = [replace(event, finish_reason="cancelled") if isinstance(event, Call) else event for event in trace.events]
    finished = Finished(run, replace(trace, events=tuple(events)), tmp_path / "x", "")

    assert (
        about_in_one_line(finished)
        == f"2 calls (2 cancelled), 250 prompt tokens, 40 completion tokens: {tmp_path / 'x'}"
    )


def test_recording_that_failed_is_told_without_a_trace(tmp_path: Path) -> None:
    run = begin_in(tmp_path, None)
    run.finish()
    finished = Finished(run, None, None, "RECORDING FAILED")

    assert about(finished) == ["RECORDING FAILED"]
    assert about_in_one_line(finished) == "RECORDING FAILED"
