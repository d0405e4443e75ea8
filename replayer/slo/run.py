"""Search for the most agents within objectives: each probe is a replay with a folder of its own, and none is run twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from rotoscope import __version__
from rotoscope.replayer.gates.course import least_sessions
from rotoscope.replayer.notes import Say
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.reading import Results, read_results
from rotoscope.replayer.servers import Settings
from rotoscope.replayer.slo.objectives import Objective, Reached, reached
from rotoscope.replayer.slo.search import Border, find_border, majority
from rotoscope.replayer.summary import INTERRUPTED_EXIT_CODE
from rotoscope.replayer.sweep.folder import SweepFolder
from rotoscope.replayer.sweep.places import Perform, Place, Values
from rotoscope.replayer.sweep.plan import OptionValue, check_said_once, place_check, told_options
from rotoscope.replayer.sweep.rows import Row
from rotoscope.replayer.sweep.tabular import csv_bytes
from rotoscope.traces.corpus import sha256_of
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Trace
from rotoscope.traces.phrases import counted

FORMAT_NAME = "rotoscope.slo"
FORMAT_VERSION = 1
PLAN_FILE = "slo.json"
PROBES_FILE = "probes.csv"
ANSWER_FILE = "answer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SloPlan:
    """What is searched for; two calls with the same plan are one search."""

    version: str
    """Of Rotoscope."""
    objectives: tuple[Objective, ...]
    first: int
    most: int
    repeats: int
    sessions_per_user: int
    settings: Values
    """Of the server, one value each."""
    seed: int
    corpus_sha256: str
    server_check: str
    options: dict[str, OptionValue]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"objectives": {one.name: one.limit_s for one in self.objectives}}


def plan_search(
    traces: Sequence[Trace],
    options: ReplayOptions,
    *,
    objectives: tuple[Objective, ...],
    first: int,
    most: int,
    repeats: int,
    sessions_per_user: int,
    settings: Settings,
    place: Place,
) -> SloPlan:
    """Return the plan; raise UnusableInput where there is nothing between the bounds, too much, or more than one server."""
    check_said_once(options, settings)
    if first > most:
        raise UnusableInput(f"expected --from to be no more than --most, not {first} and {most}")
    if any(len(values) > 1 for values in settings.values()):
        raise UnusableInput("a search is of one server: give one value to each --set")
    replace(options, concurrency=most, sessions=_sessions(sessions_per_user, most))
    return SloPlan(
        version=__version__,
        objectives=objectives,
        first=first,
        most=most,
        repeats=repeats,
        sessions_per_user=sessions_per_user,
        settings={name: values[0] for name, values in settings.items()},
        seed=options.seed,
        corpus_sha256=sha256_of(traces),
        server_check=place_check(place),
        options=told_options(options),
    )


@dataclass(frozen=True, slots=True)
class Probe:
    """One replay of a search."""

    concurrency: int
    repeat: int
    is_valid: bool
    reached: tuple[Reached, ...]
    is_simulated: bool = False

    @property
    def is_met(self) -> bool:
        """A run that is not valid met nothing, whatever its numbers say."""
        return self.is_valid and all(one.is_met for one in self.reached)

    @property
    def is_sure(self) -> bool:
        """Whether another choice of the sessions would not have changed the outcome."""
        if not self.is_valid or self.is_met:
            return self.is_valid and all(one.is_sure for one in self.reached)
        return any(one.is_sure and not one.is_met for one in self.reached)


@dataclass(slots=True)
class Searched:
    """What there is of a search."""

    repeats: int
    probes: list[Probe] = field(default_factory=list)
    """In the order in which they ran."""
    border: Border | None = None
    """None where the search was interrupted."""

    @property
    def exit_code(self) -> int:
        """0: some number of agents meets the objectives; 3: none does, or it is not known of the next; 130: interrupted."""
        if self.border is None:
            return INTERRUPTED_EXIT_CODE
        is_known = self.border.unmet is None or self.is_known(self.border.unmet)
        return 0 if self.border.met is not None and is_known else 3

    def is_known(self, concurrency: int) -> bool:
        """Whether runs that are not valid did not decide."""
        valid = [one for one in self.at(concurrency) if one.is_valid]
        met = sum(one.is_met for one in valid)
        return 2 * met > self.repeats or 2 * (len(valid) - met) >= self.repeats

    @property
    def is_simulated(self) -> bool:
        """Whether a simulator answered: its times are modelled."""
        return any(one.is_simulated for one in self.probes)

    def at(self, concurrency: int) -> list[Probe]:
        """Return the probes with so many agents."""
        return [one for one in self.probes if one.concurrency == concurrency]

    def outcome(self, concurrency: int) -> str:
        """Return in how many runs at this concurrency the objectives were met."""
        runs = self.at(concurrency)
        return f"{sum(one.is_met for one in runs)} of {counted(len(runs), 'run')}"


def search(plan: SloPlan, options: ReplayOptions, *, folder: Path, perform: Perform, say: Say) -> Searched:
    """Run what is not known yet of a search; raise UnusableInput where the folder is another's, RunFailed where a probe fails."""
    place = SweepFolder.opened(
        folder, file=PLAN_FILE, format_name=FORMAT_NAME, version=FORMAT_VERSION, plan=plan.as_dict()
    )
    say(f"results go to {folder}")
    with place.owned():
        try:
            return _Search(plan, options, folder=place, perform=perform, say=say).run()
        except UnusableInput:
            place.withdraw(PLAN_FILE)
            raise


class _Interrupted(Exception):
    """A probe was; nothing more is asked."""


class _Search:
    def __init__(
        self, plan: SloPlan, options: ReplayOptions, *, folder: SweepFolder, perform: Perform, say: Say
    ) -> None:
        self._plan = plan
        self._options = options
        self._folder = folder
        self._perform = perform
        self._say = say
        self._searched = Searched(plan.repeats)

    def run(self) -> Searched:
        try:
            self._searched.border = find_border(self._meets, first=self._plan.first, most=self._plan.most)
        except (_Interrupted, KeyboardInterrupt):  # within a run, or before or after one
            return self._searched
        answer = asdict(self._searched.border) | {"simulated": self._searched.is_simulated}
        self._folder.write(ANSWER_FILE, orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
        return self._searched

    def _meets(self, concurrency: int) -> bool:
        return majority(lambda repeat: self._probe(concurrency, repeat).is_met, repeats=self._plan.repeats)

    def _probe(self, concurrency: int, repeat: int) -> Probe:
        name = f"probe_c={concurrency}_{repeat}"
        results = self._ended(name)
        if results is None:
            self._replay(name, concurrency, repeat)
            results = read_results(self._folder.place(name))
        summary = results.summary
        is_valid = summary.exit_code == 0 and summary.window is not None
        probe = Probe(
            concurrency, repeat, is_valid, reached(results, self._plan.objectives), is_simulated=summary.setup.simulated
        )
        self._searched.probes.append(probe)
        self._folder.write(PROBES_FILE, csv_bytes([probe_row(one) for one in self._searched.probes]))
        return probe

    def _ended(self, name: str) -> Results | None:
        """Return what a run left that has ended; None where it has to run, also because a part of that is damaged."""
        if self._folder.ended(name) is None:
            return None
        try:
            return read_results(self._folder.place(name))
        except UnusableInput:
            return None

    def _replay(self, name: str, concurrency: int, repeat: int) -> None:
        moved = self._folder.set_aside(name)
        if moved is not None:
            self._say(f"what was there of {name} is in {moved}")
        self._say(f"{counted(concurrency, 'agent')}, run {repeat} of {self._plan.repeats}")
        options = replace(
            self._options,
            concurrency=concurrency,
            sessions=_sessions(self._plan.sessions_per_user, concurrency),
            folder=self._folder.place(name),
        )
        if self._perform(options, self._plan.settings).interrupted:
            raise _Interrupted


def _sessions(a_user: int, concurrency: int) -> int:
    return max(a_user * concurrency, least_sessions(concurrency))


def probe_row(probe: Probe) -> Row:
    """Return a probe as a row for programs; times are in seconds."""
    row: Row = {"concurrency": probe.concurrency, "repeat": probe.repeat, "valid": probe.is_valid, "met": probe.is_met}
    for one in probe.reached:
        name = f"{one.objective.name}_s"
        row |= {} if one.value_s is None else {name: one.value_s}
        if one.interval_s is not None:
            row |= {f"{name}.low": one.interval_s.low, f"{name}.high": one.interval_s.high}
        row[f"{name}.limit"] = one.objective.limit_s
    return row | {"simulated": probe.is_simulated}
