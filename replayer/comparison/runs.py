"""Which runs are compared: those of two folders that were put under the same load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeAlias

from rotoscope.replayer.reading import Results, read_results, read_summary
from rotoscope.replayer.results import SUMMARY_FILE
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.sweep.folder import SweepFolder
from rotoscope.replayer.sweep.reading import is_sweep, read_plan
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.phrases import counted

LOAD = frozenset(
    {
        *("corpus_sha256", "traces", "fixed", "mix", "sessions", "duration_s", "concurrency", "rate_per_h", "arrivals"),
        *("until_ci", "ramp_s", "gaps", "gap_scale", "gap_cap_s", "seed"),
    }
)
"""Fields of a setup that say what was to be done and when; they must be equal."""
SYSTEM = frozenset(
    {
        *("version", "model", "engine", "server_version", "simulated", "api", "tokens_from", "vocabulary"),
        *("profile", "block_size", "timeout_s", "limits", "gpus", "max_batch", "skipped_gates"),
    }
)
"""Fields that say who answered and how it was asked; what differs is named."""
NEITHER = frozenset(
    {
        *("command", "corpus_name", "corpus_version", "salt", "words", "template"),
        *("gpus_assumed", "concurrency_assumed"),
    }
)
"""Fields that say the same once more, or differ from run to run."""
Load: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Run:
    """A run in its folder."""

    folder: Path
    summary: Summary
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the server, in a sweep."""

    def read(self) -> Results:
        return read_results(self.folder)

    @property
    def load(self) -> Load:
        """What it was put under, and settings of the server that a sweep goes through.

        The seed is part of it where it decides when sessions start.
        """
        setup = self.summary.setup
        load = {one.name: getattr(setup, one.name) for one in fields(Setup) if one.name in LOAD}
        if setup.concurrency is not None:
            del load["seed"]
        return {**self.settings, **load}


@dataclass(frozen=True, slots=True)
class Point:
    """Runs of both sides under one load; several of a side are repeats."""

    load: Load
    a: tuple[Run, ...]
    b: tuple[Run, ...]


def runs_in(folder: Path) -> list[Run]:
    """Return the run of a folder of results, those of a sweep, or those of the folders in it.

    Raises UnusableInput where there is none.
    """
    if (folder / SUMMARY_FILE).exists():
        return [Run(folder, read_summary(folder))]
    if found := [*(_swept(folder) if is_sweep(folder) else _within(folder))]:
        return found
    raise UnusableInput(f"{str(folder)!r} holds no results of a replay that has ended, nor folders of such")


def points_of(a: Sequence[Run], b: Sequence[Run]) -> list[Point]:
    """Return the loads that both sides were put under; raise UnusableInput where there is none."""
    of_a, of_b = _by_load(a), _by_load(b)
    shared = [Point(some[0].load, tuple(some), tuple(of_b[load])) for load, some in of_a.items() if load in of_b]
    if not shared:
        raise UnusableInput(_why_none(a, b))
    for point in shared:
        if len(point.a) != len(point.b) and min(len(point.a), len(point.b)) == 1:
            raise UnusableInput(
                f"{counted(len(point.a), 'run')} of A and {len(point.b)} of B: compare one with one, or several with several"
            )
    return shared


def left_out(points: Sequence[Point], a: Sequence[Run], b: Sequence[Run]) -> tuple[int, int]:
    """Return how many runs of each side have no counterpart."""
    return len(a) - sum(len(point.a) for point in points), len(b) - sum(len(point.b) for point in points)


def differences(points: Sequence[Point]) -> Iterator[str]:
    """Yield what differs between the systems: which field, and the values of both sides."""
    for name in (one.name for one in fields(Setup)):
        if name in SYSTEM:
            one, other = (_values(name, [run for point in points for run in side(point)]) for side in (_a, _b))
            if one != other:
                yield f"{name.removesuffix('_s')} {one} in A, {other} in B"
    one, other = (_preloaded([run for point in points for run in side(point)]) for side in (_a, _b))
    if one != other:
        yield f"warm-up {one} in A, {other} in B"


def label(point: Point, points: Sequence[Point]) -> str:
    """Return what tells a load from the others, by the names of its setup."""
    varies = [name for name in point.load if len({str(one.load.get(name)) for one in points}) > 1]
    return ", ".join(f"{name.removesuffix('_s')} {_told(point.load[name])}" for name in varies)


def _swept(folder: Path) -> Iterator[Run]:
    place = SweepFolder(folder).place
    for point in read_plan(folder).points():
        if (place(point.name) / SUMMARY_FILE).exists():
            yield Run(place(point.name), read_summary(place(point.name)), point.settings)


def _within(folder: Path) -> Iterator[Run]:
    for path in sorted(folder.glob(f"*/{SUMMARY_FILE}")):
        yield Run(path.parent, read_summary(path.parent))


def _by_load(runs: Sequence[Run]) -> dict[str, list[Run]]:
    groups: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[str(sorted(run.load.items()))].append(run)
    return groups


def _why_none(a: Sequence[Run], b: Sequence[Run]) -> str:
    one, other = a[0].load, b[0].load
    if len(_by_load(a)) > 1 or len(_by_load(b)) > 1:
        return "no run of A was put under the load of one of B: sweep both with the same options"
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    parts = [f"{name.removesuffix('_s')} {_told(one.get(name))} in A, {_told(other.get(name))} in B" for name in names]
    return f"not the same load: {'; '.join(parts)}: replay both with the same traces and options"


def _a(point: Point) -> tuple[Run, ...]:
    return point.a


def _b(point: Point) -> tuple[Run, ...]:
    return point.b


def _preloaded(runs: Sequence[Run]) -> str:
    warm_ups = (run.summary.warm_up for run in runs)
    return ", ".join(dict.fromkeys(f"of {one.tokens:,} tokens" if one else "none" for one in warm_ups))


def _values(name: str, runs: Sequence[Run]) -> str:
    return ", ".join(dict.fromkeys(_told(getattr(run.summary.setup, name)) for run in runs))


def _told(value: object) -> str:
    return "none" if value is None else str(value)
