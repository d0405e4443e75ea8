"""Where the points of a sweep are measured, and how one is: on servers, or on a simulation in this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol, TypeAlias

from rotoscope.replayer.modelled_run import replay_modelled
from rotoscope.replayer.notes import Say
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.performing import Watch
from rotoscope.replayer.run import replay
from rotoscope.replayer.server_command import CONCURRENCY
from rotoscope.replayer.servers import GPUS, Servers, Settings, check_gpus
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.sweep.simulated import simulator_of
from rotoscope.traces.model import Trace

MAX_BATCH = "max_batch"
"""A setting of this name is also how many requests are in a server's batch at most, in that of each replica."""
REPLICAS = "replicas"
"""A setting of this name is also how many engines are behind a server."""

Values: TypeAlias = dict[str, str]
"""One value of each setting."""
Perform: TypeAlias = Callable[[ReplayOptions, Values], Summary]
"""Replays once, on a server with these settings."""


class Place(Protocol):
    """Where points are measured."""

    @property
    def any_url(self) -> str | None:
        """For what is checked before there is a server; None where there is none."""

    @property
    def identity(self) -> str:
        """What makes it another place; it may name the machine."""

    def perform(
        self, traces: Sequence[Trace], options: ReplayOptions, values: Values, *, say: Say, watch: Watch | None
    ) -> Summary:
        """Replay once with these settings."""


@dataclass(frozen=True, slots=True)
class OnServers:
    """Servers that are there, or are started for each point."""

    servers: Servers

    @property
    def any_url(self) -> str | None:
        return self.servers.any_url

    @property
    def identity(self) -> str:
        return f"{self.servers.url} {self.servers.command or ''}"

    def perform(
        self, traces: Sequence[Trace], options: ReplayOptions, values: Values, *, say: Say, watch: Watch | None
    ) -> Summary:
        options = _with_batch(options, values)
        filled = {**values, CONCURRENCY: str(options.concurrency)}
        with self.servers.running(filled, api_key=options.api_key, say=say) as url:
            return replay(traces, replace(_with_gpus(options, values), url=url), say=say, watch=watch)


class Simulated:
    """The simulator, in modelled time."""

    any_url: str | None = None
    identity = "simulated"

    def __init__(self, settings: Settings) -> None:
        """Raise UnusableInput for settings that it has not."""
        check_gpus(settings)
        for values in product(*settings.values()):
            simulator_of(dict(zip(settings, values, strict=True)))

    def perform(
        self, traces: Sequence[Trace], options: ReplayOptions, values: Values, *, say: Say, watch: Watch | None
    ) -> Summary:
        return replay_modelled(traces, _with_gpus(options, values), simulator_of(values), say=say, watch=watch)


def _with_batch(options: ReplayOptions, values: Values) -> ReplayOptions:
    """Return the options with the batch of all replicas together; 0, which to some engines is no limit, says nothing."""
    batch, replicas = values.get(MAX_BATCH, ""), values.get(REPLICAS, "1")
    if not (re.fullmatch("[1-9][0-9]{0,5}", batch) and re.fullmatch("[1-9][0-9]{0,2}", replicas)):
        return options
    return replace(options, max_batch=int(batch) * int(replicas))


def _with_gpus(options: ReplayOptions, values: Values) -> ReplayOptions:
    return replace(options, gpus=int(values[GPUS])) if GPUS in values else options
