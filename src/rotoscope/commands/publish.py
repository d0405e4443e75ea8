"""`rotoscope publish`: re-key traces into one corpus that may be shown, rounded as asked, and audited."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rotoscope.traces.publish import Published


def publish(
    paths: Annotated[
        list[str],
        typer.Argument(help="Trace files or folders, ours or foreign; FILE#NAME is one of many.", metavar="IN"),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to make, which must not be there or be empty.")
    ],
    round_ms: Annotated[int, typer.Option(help="Step of times in milliseconds: 1, 10 or 100.")] = 1,
    round_tokens: Annotated[
        int | None, typer.Option(help="Step of lengths in tokens: 16 or 64; exact if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Make the new ids from this number, so that the same traces give the same bytes.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="What the corpus is called and its version, for results to tell: coding-agents@1.0.",
            metavar="NAME@VERSION",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written and its effect as JSON.")] = False,
) -> None:
    """Write traces as one corpus to show: new ids, times from zero and rounded, lengths rounded on request, audited.

    Example: rotoscope publish recordings -o corpus --round-tokens 64
    """
    from rotoscope.commands.convert import ended_in_order
    from rotoscope.traces.corpus import CorpusName
    from rotoscope.traces.formats.fidelity import Fidelity
    from rotoscope.traces.formats.recognise import open_traces
    from rotoscope.traces.publish import PublishOptions
    from rotoscope.traces.publish import publish as write

    called = None if name is None else CorpusName.parse(name)
    options = PublishOptions(round_ms=round_ms, round_tokens=round_tokens, seed=seed, called=called)
    fidelity = Fidelity()
    traces = open_traces(paths, fidelity)
    with ended_in_order():
        published = write(traces, output, options)
    for line in fidelity.lines():
        sys.stderr.write(f"  reading: {line}\n")
    if as_json:
        typer.echo(json.dumps(asdict(published), indent=1))
    else:
        _print(published, output)


def _print(published: Published, output: Path) -> None:
    from rotoscope.tables import print_table
    from rotoscope.traces.publish import DEFINITION

    rows = [(one.what, _number(one.before), _number(one.after)) for one in published.effects]
    print_table(("", "before", "after"), rows, right=(1, 2))
    typer.echo(f"\n{DEFINITION}\npublished: {len(published.files)} traces in {output}, audit clean")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
