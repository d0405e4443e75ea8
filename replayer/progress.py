"""Progress of a run on a terminal's stderr: one line that is renewed in place and gone at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from rotoscope.replayer.lanes import Progress


@contextmanager
def progress_line(out: TextIO) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress on `out`, which must be a terminal."""
    rate = _Rate()

    def show(progress: Progress) -> None:
        _write(out, f"\r\033[K{line_of(progress, rate.over(progress))}")

    try:
        yield show
    finally:
        _write(out, "\r\033[K")


def _write(out: TextIO, text: str) -> None:
    with suppress(OSError):  # a terminal that was closed ends no measurement by itself
        out.write(text)
        out.flush()


def line_of(progress: Progress, requests_per_s: float) -> str:
    """Return progress as one short line."""
    parts = [
        f"{progress.sessions_ended}/{progress.sessions} sessions",
        f"{progress.sessions_running} running",
        f"{progress.requests_ended} requests",
        f"{requests_per_s:.1f}/s",
    ]
    if progress.sessions_failed:
        parts.append(f"{progress.sessions_failed} sessions failed")
    if progress.half_width is not None:
        parts.append(f"jobs/h to {100 * progress.half_width:.1f} %")
    return f"{progress.elapsed_s:.0f} s  " + "  ".join(parts)


class _Rate:
    """Requests a second over about the last two seconds."""

    _WINDOW_S = 2.0

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def over(self, progress: Progress) -> float:
        self._seen.append((progress.elapsed_s, progress.requests_ended))
        while len(self._seen) > 2 and progress.elapsed_s - self._seen[1][0] >= self._WINDOW_S:
            self._seen.pop(0)
        (start_s, before), (end_s, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end_s - start_s) if end_s > start_s else 0.0
