"""The simulator as a process: banner, URL, and a clean end on SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys

from rotoscope.replayer.simulator.model import Model
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator


def serve_until_stopped(options: SimulatorOptions, model: Model | None = None) -> None:
    """Serve until SIGINT or SIGTERM; the URL goes to stdout, the rest to stderr."""
    asyncio.run(_serve(options, model))


async def _serve(options: SimulatorOptions, model: Model | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with running_simulator(options, model) as url:
        print(_banner(options), file=sys.stderr, flush=True)
        print(url, flush=True)
        await stopped.wait()


def _banner(options: SimulatorOptions) -> str:
    speed = "without waiting" if options.speed == 0 else f"{options.speed:g}x the modelled speed"
    size = "the profile's block size" if options.block_size is None else f"{options.block_size} tokens"
    host = f"{options.host_blocks} more in host memory, " if options.host_blocks else ""
    dealt = f"{options.replicas} replicas of it behind router {options.router}, " if options.replicas > 1 else ""
    return (
        f"rotoscope simulator: no model is computed, times are modelled ({options.timing.source})\n"
        f"model {options.model}, profile {options.profile}, {options.blocks} blocks of {size}, "
        f"{host}batch {options.max_batch}, {dealt}{speed}"
    )
