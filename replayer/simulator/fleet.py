"""Several replicas of the engine behind one address, and the routers that deal requests to them.

The KV-aware router sends a request where it costs least, by the cost function of Dynamo's KV router (design notes of
its documentation, as of 1.3) with its default weight of 1 and without randomness:

    cost = weight * prompt blocks to compute + blocks in use

both as they would be with the request on that replica: what it still has to compute for others is part of the first,
what its calls use of the cache now part of the second. The router knows what is in each cache, and in the host tier
behind it, but not how long answers will be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.metrics import Latencies
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.traces.errors import UnusableInput

_OVERLAP_WEIGHT = 1.0


@dataclass(slots=True, eq=False)
class Replica:
    """One engine with a cache of its own."""

    engine: Engine
    latencies: Latencies = field(default_factory=Latencies)


class Router(Protocol):
    """Decides where a request goes."""

    def choose(self, replicas: Sequence[Replica], generations: Sequence[Generation]) -> int:
        """Return the index of the replica that is to compute all outputs of a request."""
        ...


class RoundRobin:
    """Deals requests in turn, as they come."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, replicas: Sequence[Replica], generations: Sequence[Generation]) -> int:
        """Return the index of the replica whose turn it is."""
        chosen, self._next = self._next, (self._next + 1) % len(replicas)
        return chosen


class KvAware:
    """Sends a request where it costs least; of equals to the one with fewest calls, then to the first."""

    def choose(self, replicas: Sequence[Replica], generations: Sequence[Generation]) -> int:
        """Return the index of the cheapest replica."""
        return min(range(len(replicas)), key=lambda index: (*_cost(replicas[index], generations), index))


ROUTERS: Mapping[str, type[Router]] = MappingProxyType({"round-robin": RoundRobin, "kv": KvAware})


def router_named(name: str) -> Router:
    """Return a new router by its name."""
    if name not in ROUTERS:
        raise UnusableInput(f"unknown router {name!r}: there are {', '.join(ROUTERS)}")
    return ROUTERS[name]()


class Fleet:
    """All replicas; `run` must be running as a task for anything to be generated."""

    def __init__(self, replicas: Sequence[Replica], router: Router) -> None:
        self.replicas = tuple(replicas)
        self._router = router

    def replica_for(self, generations: Sequence[Generation]) -> Replica:
        """Return where a request goes; the router takes it that it is submitted there at once."""
        return self.replicas[self._router.choose(self.replicas, generations)]

    async def run(self) -> None:
        """Let all engines compute until cancelled; an error of one stops them all."""
        async with asyncio.TaskGroup() as engines:
            for replica in self.replicas:
                engines.create_task(replica.engine.run())


def _cost(replica: Replica, generations: Sequence[Generation]) -> tuple[float, int]:
    """Return what a request would cost on a replica, in blocks, and how many calls are there already."""
    scheduler = replica.engine.at_this_moment()
    to_compute, in_use = scheduler.tokens_to_compute(), scheduler.blocks_in_use()
    for generation in generations:
        found, held = scheduler.found(generation)
        to_compute += len(generation.prompt_ids) - found * scheduler.profile.block_size
        in_use += scheduler.blocks_needed(len(generation.prompt_ids)) - held
    cost = _OVERLAP_WEIGHT * to_compute / scheduler.profile.block_size + in_use
    return cost, len(scheduler.running) + len(scheduler.waiting)
