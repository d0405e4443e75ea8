"""`rotoscope recover`: the traces of recordings that were cut short."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rotoscope.proxy.recovery import Recovered


def recover(
    journal: Annotated[
        Path, typer.Argument(help="The journal that a recording left, or a folder of recordings.", metavar="JOURNAL")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the trace; beside the journal if not given.")
    ] = None,
) -> None:
    """Make the trace of a recording that was killed, from the journal that it left.

    Example: rotoscope recover recordings/run-0001.journal.jsonl
    """
    from rotoscope.proxy import recovery
    from rotoscope.traces.errors import UnusableInput

    if not journal.is_dir():
        _tell(recovery.recover(journal, output))
        return
    if output is not None:
        raise UnusableInput(f"{journal} is a folder: traces are made beside their journals, leave out --output")
    outcomes = list(recovery.recover_all(journal))
    for outcome in outcomes:
        _tell(outcome)
    if not outcomes:
        typer.echo(f"{journal}: no recording left a journal here")
    if any(outcome.is_failure for outcome in outcomes):
        raise typer.Exit(1)


def _tell(outcome: Recovered) -> None:
    from rotoscope.recorder.summary import summary

    if outcome.trace is None:
        typer.echo(f"{outcome.journal}: {outcome.reason}", err=outcome.is_failure)
        return
    if outcome.refused:
        typer.echo(f"{outcome.refused} requests that the server refused are not in the trace")
    for line in summary(outcome.trace):
        typer.echo(line)
    typer.echo(f"trace: {outcome.path}")
