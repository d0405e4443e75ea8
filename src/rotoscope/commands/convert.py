"""`rotoscope convert`: write traces in another format, with an account of what is kept, approximated and lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rotoscope.traces.formats.fidelity import Fidelity


def convert(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Trace files or folders in any format, `-` for standard input; then the file or folder to write.",
            metavar="IN... OUT",
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="Format to write.")] = "rotoscope",
    block_size: Annotated[
        int | None, typer.Option(help="Tokens a block in the file, instead of the format's usual.", min=1)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Convert traces between formats and tell on stderr what was kept, approximated and lost.

    Example: rotoscope convert traces/coder coder.jsonl --to mooncake
    """
    from rotoscope.traces.errors import UnusableInput
    from rotoscope.traces.formats.convert import Target
    from rotoscope.traces.formats.convert import convert as write
    from rotoscope.traces.formats.fidelity import Fidelity
    from rotoscope.traces.formats.recognise import open_traces
    from rotoscope.traces.formats.registry import format_named

    *inputs, out = paths
    if not inputs:
        raise UnusableInput("expected what to read and where to write: rotoscope convert IN... OUT --to FORMAT")
    target = Target(path=out, format=format_named(to), block_size=block_size, overwrites=force)
    reading, writing = Fidelity(), Fidelity()
    traces = open_traces(inputs, reading)
    files = write(traces, target, writing)
    calls = sum(1 for one in traces for _ in one.trace.calls())
    sys.stderr.write(f"{target.format.title}: traces {len(traces)}, calls {calls}, files {files}\n")
    _account("reading", reading)
    _account("writing", writing)


def _account(step: str, fidelity: Fidelity) -> None:
    for line in fidelity.lines():
        sys.stderr.write(f"  {step}: {line}\n")
