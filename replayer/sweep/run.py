"""Run a sweep: each point that has not ended yet, in an order drawn from the seed, and the tables after each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from rotoscope.replayer.notes import Say
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.reading import read_summary
from rotoscope.replayer.summary import INTERRUPTED_EXIT_CODE
from rotoscope.replayer.sweep.folder import SweepFolder
from rotoscope.replayer.sweep.places import Perform
from rotoscope.replayer.sweep.plan import Point, SweepPlan
from rotoscope.replayer.sweep.plots import has_matplotlib, hit_rate_svg, pareto_svg
from rotoscope.replayer.sweep.rows import Measured, rows_of
from rotoscope.replayer.sweep.tabular import WITHOUT_PARQUET, csv_bytes, parquet_bytes
from rotoscope.traces.errors import RunFailed, UnusableInput

FORMAT_NAME = "rotoscope.sweep"
FORMAT_VERSION = 1
PLAN_FILE = "sweep.json"
CSV_FILE = "sweep.csv"
PARQUET_FILE = "sweep.parquet"
PARETO_FILE = "pareto.svg"
HIT_RATE_FILE = "hit_rate.svg"
WITHOUT_PLOTS = "no pictures: pip install 'rotoscope[plots]' and call it again"
MOST_FAILURES_IN_A_ROW = 3
"""Points without a result, after which the rest is not tried."""


@dataclass(slots=True)
class Swept:
    """What there is of a sweep."""

    measured: list[Measured] = field(default_factory=list)
    """The points that have ended, in the order of the grid."""
    failed: list[Point] = field(default_factory=list)
    """Those that left no result."""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """0: all are valid; 3: some are not; 1: some left no result; 130: interrupted."""
        if self.interrupted:
            return INTERRUPTED_EXIT_CODE
        if self.failed or all(one.valid == "failed" for one in self.measured):
            return 1
        return 0 if all(one.valid == "yes" for one in self.measured) else 3


def sweep(plan: SweepPlan, options: ReplayOptions, *, folder: Path, perform: Perform, say: Say) -> Swept:
    """Run what has not ended yet of a plan; raise UnusableInput where the folder is another's or the first point cannot be
    performed, RunFailed where somebody else is at work there.

    A point that leaves no result is told and the next one is tried.
    """
    place = SweepFolder.opened(
        folder, file=PLAN_FILE, format_name=FORMAT_NAME, version=FORMAT_VERSION, plan=plan.as_dict()
    )
    say(f"results go to {folder}")
    with place.owned():
        try:
            return _Sweep(plan, options, folder=place, perform=perform, say=say).run()
        except UnusableInput:
            place.withdraw(PLAN_FILE)
            raise


class _Sweep:
    def __init__(
        self, plan: SweepPlan, options: ReplayOptions, *, folder: SweepFolder, perform: Perform, say: Say
    ) -> None:
        self._plan = plan
        self._options = options
        self._folder = folder
        self._perform = perform
        self._say = say
        ended = ((point, folder.ended(point.name)) for point in plan.points())
        self._summaries = {point.number: summary for point, summary in ended if summary is not None}

    def run(self) -> Swept:
        swept = Swept()
        waiting = [point for point in self._plan.in_order() if point.number not in self._summaries]
        if self._summaries:
            self._say(f"{len(self._summaries)} of {len(self._plan.points())} points have ended before")
        failures = 0
        for point in waiting:
            if failures == MOST_FAILURES_IN_A_ROW:
                self._say(f"{failures} points in a row left no result: the rest is not tried")
                break
            try:
                swept.interrupted = not self._has_ended(point)
                failures = 0
            except KeyboardInterrupt:  # before the run, or after it: within it sums up what it has
                swept.interrupted = True
            except (RunFailed, UnusableInput) as error:
                if isinstance(error, UnusableInput) and not self._summaries and not swept.failed:
                    raise  # no point can be performed so, as far as is known
                self._say(f"point {point.number} failed: {error}")
                swept.failed.append(point)
                failures += 1
            if swept.interrupted:
                break
            self._write()
        if not waiting:
            self._write()
        swept.measured = self._measured()
        self._tell_differences(swept.measured)
        return swept

    def _tell_differences(self, measured: list[Measured]) -> None:
        """Say where points are of servers that differ in what no setting says: one may have been changed meanwhile."""
        for name in ("model", "engine", "server_version"):
            values = sorted({str(getattr(one.summary.setup, name)) for one in measured})
            if len(values) > 1 and name not in self._plan.settings:
                self._say(f"not all points have the same {name.replace('_', ' ')}: {', '.join(values)}")

    def _has_ended(self, point: Point) -> bool:
        """Run a point; return False where it was interrupted."""
        moved = self._folder.set_aside(point.name)
        if moved is not None:
            self._say(f"what was there of point {point.number} is in {moved}")
        self._say(f"point {point.number} of {len(self._plan.points())}: {point}")
        summary = self._perform(self._options_of(point), point.settings)
        if summary.interrupted:
            return False
        self._summaries[point.number] = read_summary(self._folder.place(point.name))  # without every request
        return True

    def _options_of(self, point: Point) -> ReplayOptions:
        return replace(
            self._options,
            concurrency=point.concurrency,
            sessions=self._plan.sessions_of(point),
            folder=self._folder.place(point.name),
        )

    def _measured(self) -> list[Measured]:
        return [
            Measured(point, self._summaries[point.number])
            for point in self._plan.points()
            if point.number in self._summaries
        ]

    def _write(self) -> None:
        measured = self._measured()
        if not measured:
            return
        rows = rows_of(measured)
        self._folder.write(CSV_FILE, csv_bytes(rows))
        parquet = parquet_bytes(rows)
        if parquet is not None:
            self._folder.write(PARQUET_FILE, parquet)
        if len(rows) == len(self._plan.points()):
            if parquet is None:
                self._say(WITHOUT_PARQUET)
            self._draw(measured)

    def _draw(self, measured: list[Measured]) -> None:
        """Draw what has been measured, at the end: it takes a second."""
        if not has_matplotlib():
            self._say(WITHOUT_PLOTS)
            return
        settings = [name for name, values in self._plan.settings.items() if len(values) > 1]
        for file, picture in (
            (PARETO_FILE, pareto_svg(measured, settings)),
            (HIT_RATE_FILE, hit_rate_svg(measured, settings)),
        ):
            if picture is not None:
                self._folder.write(file, picture)
