"""`rotoscope record`: run a command, and make a trace of what it does to its server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def record(
    command: Annotated[list[str], typer.Argument(help="The agent and its arguments.", metavar="COMMAND")],
    upstream: Annotated[
        str | None,
        typer.Option(help="Base URL of the server that the agent talks to; without it, that in OPENAI_BASE_URL."),
    ] = None,
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder for the trace.")] = Path("recordings"),
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Ask the server for the token ids of each prompt, which it then gets twice."),
    ] = False,
) -> None:
    """Run a command behind a gateway to its server and write a content-free trace of its calls.

    Example: rotoscope record --upstream http://localhost:8000/v1 -- python my_agent.py
    """
    import os

    from rotoscope.proxy.record import RecordOptions, chosen_upstream
    from rotoscope.proxy.record import record as run

    options = RecordOptions(command, chosen_upstream(upstream, os.environ), folder, measure)
    raise typer.Exit(run(options))
