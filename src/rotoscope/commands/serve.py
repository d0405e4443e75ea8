"""`rotoscope serve`: run the simulator as a server."""

from __future__ import annotations

from typing import Annotated

import typer

from rotoscope.options import BlockSize


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8000,
    model: Annotated[str, typer.Option(help="Name of the served model.")] = "rotoscope-simulator",
    blocks: Annotated[int, typer.Option(help="Capacity of the KV cache in blocks.", min=1)] = 8192,
    host_blocks: Annotated[
        int, typer.Option(help="Blocks that host memory holds of what the cache evicts; 0 is none.", min=0)
    ] = 0,
    block_size: BlockSize = None,
    profile: Annotated[str, typer.Option(help="Engine whose rule of reuse the cache follows.")] = "vllm",
    max_batch: Annotated[int, typer.Option(help="Most requests that run at once.", min=1)] = 16,
    replicas: Annotated[int, typer.Option(help="Engines of this size, each with its own cache.", min=1)] = 1,
    router: Annotated[str, typer.Option(help="What deals requests to replicas: round-robin or kv.")] = "round-robin",
    timing: Annotated[
        str, typer.Option(help="Whose times are modelled: llama-server-tiny or qwen3-235b-gb200.")
    ] = "llama-server-tiny",
    speed: Annotated[str, typer.Option(help="Times faster than modelled; 0 or 'max' does not wait at all.")] = "1",
    seed: Annotated[int, typer.Option(help="Seed of what the model says to requests that name none.")] = 0,
    script: Annotated[
        str, typer.Option(help="What the model says: MODULE:NAME of a function; else random words.")
    ] = "",
) -> None:
    """Serve a simulated model over a real block KV cache, in the APIs of OpenAI and Anthropic.

    Example: rotoscope serve --port 8000 --blocks 1024 --profile vllm --speed 10
    """
    from rotoscope.replayer.simulator.constants import timing_named
    from rotoscope.replayer.simulator.model import load_model
    from rotoscope.replayer.simulator.running import serve_until_stopped
    from rotoscope.replayer.simulator.server import SimulatorOptions
    from rotoscope.replayer.simulator.timing import speed_of

    options = SimulatorOptions(
        host=host,
        port=port,
        model=model,
        blocks=blocks,
        host_blocks=host_blocks,
        block_size=block_size,
        profile=profile,
        max_batch=max_batch,
        replicas=replicas,
        router=router,
        timing=timing_named(timing),
        speed=speed_of(speed),
        seed=seed,
    )
    serve_until_stopped(options, load_model(script) if script else None)
