"""What the simulator is to show: where hits go as more agents run at once, and what host tier and router do to it.

All times are modelled, in an event loop that jumps from one to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass

import numpy as np

from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.constants import LLAMA_SERVER_TINY
from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.fleet import Fleet, Replica, router_named
from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.modelled_time import run_modelled
from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import ScaledClock
from rotoscope.traces.analysis.profiles import profile_named

TURNS = 8
TOOL_S = 0.5
OUTPUT_TOKENS = 20


@dataclass(frozen=True)
class Outcome:
    hit_rate: float
    seconds: float
    """Until the last agent was done."""


def measure(
    agents: int,
    *,
    blocks: int,
    host_blocks: int = 0,
    replicas: int = 1,
    router: str = "round-robin",
    growing: bool = True,
) -> Outcome:
    """Let agents run at once, each a conversation of its own or, if not `growing`, prompts that share nothing."""

    async def run() -> Outcome:
        loop = asyncio.get_running_loop()
        fleet = Fleet([Replica(engine(blocks, host_blocks)) for _ in range(replicas)], router_named(router))
        running = asyncio.create_task(fleet.run())
        await asyncio.gather(*(agent(fleet, number, growing=growing) for number in range(agents)))
        seconds = loop.time()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        counts = [replica.engine.scheduler.counts for replica in fleet.replicas]
        hits = sum(each.hit_tokens + each.host_tokens for each in counts)
        return Outcome(hits / sum(each.queried_tokens for each in counts), seconds)

    return run_modelled(run())


def engine(blocks: int, host_blocks: int) -> Engine:
    host = HostTier(host_blocks) if host_blocks else None
    scheduler = Scheduler(BlockCache(blocks, host), LLAMA_SERVER_TINY, profile_named("vllm"), max_batch=8)
    return Engine(scheduler, ScaledClock(monotonic=asyncio.get_running_loop().time))


async def agent(fleet: Fleet, number: int, *, growing: bool) -> None:
    rng = np.random.default_rng(number)
    await asyncio.sleep(rng.uniform(0.0, 2.0))
    for prompt in prompts(rng, growing=growing):
        generation = Generation(prompt, rng.integers(0, 1 << 30, OUTPUT_TOKENS, np.uint32))
        replica = fleet.replica_for([generation])
        async with aclosing(replica.engine.generate([generation])) as progress:
            async for _ in progress:
                pass
        await asyncio.sleep(rng.exponential(TOOL_S))


def prompts(rng: np.random.Generator, *, growing: bool) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint32]]]:
    stream = rng.integers(0, 1 << 30, 1000 + 250 * TURNS, np.uint32)
    for turn in range(TURNS):
        yield stream[: 1000 + 250 * turn] if growing else rng.integers(0, 1 << 30, 1000 + 250 * turn, np.uint32)


def test_as_agents_become_more_the_cache_falls_off_a_cliff_which_a_host_tier_pushes_back() -> None:
    alone = {agents: measure(agents, blocks=1200) for agents in (2, 8, 16)}
    tiered = {agents: measure(agents, blocks=1200, host_blocks=4000) for agents in (2, 8, 16)}

    assert alone[2].hit_rate > alone[8].hit_rate > 5 * alone[16].hit_rate
    assert tiered[2].hit_rate == tiered[8].hit_rate == tiered[16].hit_rate == alone[2].hit_rate
    assert tiered[16].seconds < alone[16].seconds / 2


def test_a_host_tier_has_its_price() -> None:
    tiered, roomy = measure(16, blocks=1200, host_blocks=4000), measure(16, blocks=5200)

    assert tiered.hit_rate == roomy.hit_rate
    assert tiered.seconds > roomy.seconds


def test_conversations_are_done_sooner_behind_a_router_that_knows_the_caches() -> None:
    dealt, routed = (measure(16, blocks=1200, replicas=4, router=router) for router in ("round-robin", "kv"))

    assert routed.hit_rate > 1.5 * dealt.hit_rate
    assert routed.seconds < dealt.seconds / 1.1


def test_what_shares_nothing_gains_little_from_such_a_router() -> None:
    dealt, routed = (
        measure(16, blocks=1200, replicas=4, router=router, growing=False) for router in ("round-robin", "kv")
    )

    assert dealt.hit_rate == routed.hit_rate == 0
    assert abs(routed.seconds / dealt.seconds - 1) < 0.05
