"""`rotoscope recover`: the trace of a recording that was cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def recover(
    journal: Annotated[Path, typer.Argument(help="The journal that a recording left.", metavar="JOURNAL")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the trace; beside the journal if not given.")
    ] = None,
) -> None:
    """Make the trace of a recording that was killed, from the journal that it left.

    Example: rotoscope recover recordings/run-0001.journal.jsonl
    """
    from rotoscope.proxy.place import JOURNAL_SUFFIX, TRACE_SUFFIX
    from rotoscope.proxy.summary import summary
    from rotoscope.recorder.building import build_trace
    from rotoscope.traces.errors import UnusableInput
    from rotoscope.traces.journal import read_journal
    from rotoscope.traces.writer import save

    target = output or journal.parent / (journal.name.removesuffix(JOURNAL_SUFFIX) + TRACE_SUFFIX)
    if target.exists():
        raise UnusableInput(f"{target} is there already: remove it, or name another file with --output")
    try:
        built = build_trace(read_journal(journal))
    except OSError as error:
        raise UnusableInput(f"{journal}: cannot be read: {error.strerror}") from error
    if built.trace is None:
        raise UnusableInput(f"{journal}: no call was recorded, so there is no trace to make")
    try:
        save(built.trace, target)
    except OSError as error:
        raise UnusableInput(f"{target}: cannot be written: {error.strerror}") from error
    if built.refused:
        typer.echo(f"{built.refused} requests that the server refused are not in the trace")
    for line in summary(built.trace):
        typer.echo(line)
    typer.echo(f"trace: {target}")
