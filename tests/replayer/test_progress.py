from __future__ import annotations

import errno
import io
from dataclasses import replace

from rotoscope.replayer.lanes import Progress
from rotoscope.replayer.progress import progress_line

START = Progress(
    elapsed_s=0.0,
    sessions=4,
    sessions_ended=0,
    sessions_failed=0,
    sessions_running=2,
    requests_ended=0,
    requests_failed=0,
)


def test_progress_renews_one_line_and_leaves_nothing() -> None:
    out = io.StringIO()

    with progress_line(out) as show:
        show(START)
        show(replace(START, elapsed_s=2.0, sessions_ended=1, requests_ended=10))

    lines = out.getvalue().split("\r\033[K")
    assert lines == [
        "",
        "0 s  0/4 sessions  2 running  0 requests  0.0/s",
        "2 s  1/4 sessions  2 running  10 requests  5.0/s",
        "",
    ]


def test_a_terminal_that_was_closed_is_no_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "gone")

    with progress_line(Closed()) as show:
        show(START)


def test_how_well_jobs_an_hour_are_known_is_shown_once_it_can_be_told() -> None:
    out = io.StringIO()

    with progress_line(out) as show:
        show(replace(START, half_width=0.0731))

    assert "0.0/s  jobs/h to 7.3 %" in out.getvalue()


def test_failures_are_shown_when_there_are_some() -> None:
    out = io.StringIO()

    with progress_line(out) as show:
        show(replace(START, sessions_failed=3))

    assert "3 sessions failed" in out.getvalue()


def test_the_rate_is_that_of_the_last_seconds() -> None:
    out = io.StringIO()

    with progress_line(out) as show:
        for second in range(20):
            show(replace(START, elapsed_s=float(second), requests_ended=max(0, second - 10) * 7))

    assert out.getvalue().endswith("63 requests  7.0/s\r\033[K")
