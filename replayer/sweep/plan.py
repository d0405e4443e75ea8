"""The plan of a sweep: its points and what they have in common, as it stands in `sweep.json` before the first one runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from rotoscope import __version__
from rotoscope.replayer.gates.course import least_sessions
from rotoscope.replayer.load.draws import generator
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.servers import GPUS, Settings
from rotoscope.replayer.setup import public_model_name
from rotoscope.replayer.sweep.places import MAX_BATCH, Place
from rotoscope.traces.corpus import sha256_of
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Trace

OptionValue: TypeAlias = bool | int | float | str | None

_NOT_TOLD = {"url", "api_key", "folder", "salt", "sessions", "concurrency", "seed", "dcgm"}
"""Told elsewhere, of a point, or of the machine."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:,@+=-]{0,99}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.=+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One replay of a sweep."""

    number: int
    """From 1, in the order of the grid."""
    concurrency: int
    settings: dict[str, str]

    @property
    def name(self) -> str:
        """Of its folder; the number tells apart what looks alike once signs are left out."""
        settings = "".join(f"_{name}={value}" for name, value in self.settings.items())
        return _UNSAFE.sub("-", f"point-{self.number:03d}_c={self.concurrency}{settings}")[:100]

    def __str__(self) -> str:
        return ", ".join([*(f"{name} {value}" for name, value in self.settings.items()), f"C {self.concurrency}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep does; two calls with the same plan are one sweep."""

    version: str
    """Of Rotoscope."""
    concurrency: tuple[int, ...]
    settings: Settings
    sessions: int | None
    """Of each point; None deals each trace once, or as long as there is time."""
    sessions_per_user: int | None
    """Sessions of a point for each that is in flight."""
    seed: int
    corpus_sha256: str
    """Of the traces, in the order given."""
    server_check: str
    """Of the server command or the URL, which may name the machine and are not told."""
    options: dict[str, OptionValue]
    """What every point has in common, by the names of a run's setup."""

    def points(self) -> list[Point]:
        """Return all points, settings in their order and the concurrency within them."""
        grid = product(product(*self.settings.values()), self.concurrency)
        return [
            Point(number=number, concurrency=concurrency, settings=dict(zip(self.settings, values, strict=True)))
            for number, (values, concurrency) in enumerate(grid, 1)
        ]

    def in_order(self) -> list[Point]:
        """Return the points in the order in which they run.

        It is drawn from the seed: a machine that gets warmer or busier in the course of a sweep then makes no slope of its
        own along the grid.
        """
        points = self.points()
        generator(self.seed, "sweep").shuffle(points)
        return points

    def sessions_of(self, point: Point) -> int | None:
        """Return the sessions of a point: as many for each user as were asked for, but enough for a valid run."""
        if self.sessions_per_user is None:
            return self.sessions
        return max(self.sessions_per_user * point.concurrency, least_sessions(point.concurrency))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan_sweep(
    traces: Sequence[Trace],
    options: ReplayOptions,
    *,
    concurrency: Sequence[int],
    settings: Settings,
    sessions: int | None,
    sessions_per_user: int | None,
    place: Place,
) -> SweepPlan:
    """Return the plan; raise UnusableInput where a point has more sessions than a replay may have, or something is said twice."""
    check_said_once(options, settings)
    plan = SweepPlan(
        version=__version__,
        concurrency=tuple(concurrency),
        settings=settings,
        sessions=sessions,
        sessions_per_user=sessions_per_user,
        seed=options.seed,
        corpus_sha256=sha256_of(traces),
        server_check=place_check(place),
        options=told_options(options),
    )
    for point in plan.points():
        replace(options, concurrency=point.concurrency, sessions=plan.sessions_of(point))
    return plan


def check_said_once(options: ReplayOptions, settings: Settings) -> None:
    """Raise UnusableInput for what is both an option of all replays and a setting of each server."""
    for name in (GPUS, MAX_BATCH):
        if name in settings and getattr(options, name) is not None:
            raise UnusableInput(
                f"{name} is a setting and an option: leave --set {name} or --{name.replace('_', '-')} out"
            )


def place_check(place: Place) -> str:
    """Return 16 bits of the SHA-256 of command and URL: enough to see that they are others, too few to guess them."""
    return sha256(place.identity.encode()).hexdigest()[:4]


def told_options(options: ReplayOptions) -> dict[str, OptionValue]:
    """Return the options that decide a result and say nothing about machine or person, by their names.

    What is neither number nor name is told by its digest, and a file by that of what it holds: that is enough to see that it
    is another.
    """
    told = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in _NOT_TOLD}
    told["dcgm"] = options.dcgm is not None  # one that is asked counts the GPUs, where no --gpus does
    return {
        name: _told(public_model_name(value) if name == "model" and value else value) for name, value in told.items()
    }


def _told(value: Any) -> OptionValue:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Path):
        return sha256(value.read_bytes()).hexdigest() if value.is_file() else None
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        value = ",".join(f"{field.name}:{getattr(value, field.name)}" for field in fields(value))
    text = str(value)
    return text if _NAME.fullmatch(text) else sha256(repr(value).encode()).hexdigest()
