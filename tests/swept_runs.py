"""Replays that took place nowhere: perfect closed loops with times that a test gives, written like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.reading import read_summary
from rotoscope.replayer.results import ResultsFolder
from rotoscope.replayer.summary import Summary, summarise
from rotoscope.replayer.sweep.places import Values
from rotoscope.replayer.sweep.plan import Point
from rotoscope.replayer.sweep.rows import Measured

JOB_S = 10.0


def write_run(
    options: ReplayOptions, *, ttft_s: float = 0.1, job_s: float = JOB_S, failed: int = 0, interrupted: bool = False
) -> Summary:
    """Write the results of one: every job takes `job_s`, every slot is always taken; the last `failed` sessions fail."""
    concurrency, count = options.concurrency or 1, options.sessions or 1
    assert options.folder is not None
    options.folder.mkdir(parents=True, exist_ok=True)
    starts_s = [job_s * (number // concurrency) for number in range(count)]
    lost = {"status": "failed", "latency_s": None}
    sessions = [
        make_session_result(number, admitted_s=start_s, start_s=start_s, latency_s=job_s)
        if number < count - failed
        else make_session_result(number, admitted_s=start_s, start_s=start_s, **lost)
        for number, start_s in enumerate(starts_s)
    ]
    requests = [
        make_request_result(session=number, start_s=start_s, ttft_s=ttft_s, latency_s=job_s)
        for number, start_s in enumerate(starts_s)
    ]
    with ResultsFolder.opened(options.folder) as folder:
        for request in requests:
            folder.write_request(request)
        for session in sessions:
            folder.write_session(session)
        summary = summarise(
            make_setup(sessions=count, concurrency=concurrency, gpus=options.gpus or 1, seed=options.seed),
            requests=requests,
            optimal_tokens=[50] * count,
            sessions=sessions,
            planned_requests=count,
            without_ids=0,
            interrupted=interrupted,
            duration_s=job_s * count / concurrency,
        )
        folder.write_summary(summary.as_dict())
    return summary


def measured(folder: Path, number: int, *, concurrency: int = 2, **how: Any) -> Measured:
    """Return a point on two GPUs that has run, with eight sessions for each in flight."""
    place = folder / str(number)
    write_run(
        ReplayOptions(url="http://x", sessions=8 * concurrency, concurrency=concurrency, gpus=2, folder=place), **how
    )
    return Measured(Point(number=number, concurrency=concurrency, settings={"batch": "8"}), read_summary(place))


class Performer:
    """Writes a run for each point, as `how` says of its options and settings; keeps what it was asked."""

    def __init__(self, how: Callable[[ReplayOptions, Values], dict[str, Any]] = lambda options, values: {}) -> None:
        self._how = how
        self.asked: list[tuple[int | None, Values]] = []

    def __call__(self, options: ReplayOptions, values: Values) -> Summary:
        self.asked.append((options.concurrency, values))
        return write_run(options, **self._how(options, values))
