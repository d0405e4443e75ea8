"""`rotoscope analyze`: what traces are like, and how much of their prompts a cache could serve."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.options import AssumeGrowth

if TYPE_CHECKING:
    from rotoscope.traces.analysis.table import Value


def analyze(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Trace files or folders, ours or foreign; FILE#NAME is one of many, LABEL=PATH names a group.",
            metavar="PATH",
        ),
    ],
    profile: Annotated[
        str | None, typer.Option(help="Engine profile whose blocks and decode reuse the optimum assumes.")
    ] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens a block, instead of the profile's.", min=1)] = None,
    decode_reuse: Annotated[bool, typer.Option(help="Whether outputs can be reused.")] = True,
    preload: Annotated[bool, typer.Option(help="Whether system prefixes are cached before the first call.")] = True,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Print the hit rate under each definition of the field instead.")
    ] = False,
    assume_growth: AssumeGrowth = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
) -> None:
    """Tell requests, lengths, tool time, parallelism and the planned optimal hit rate of traces, by label.

    Example: rotoscope analyze coder=traces/coder research=traces/research
    """
    from rotoscope.traces.analysis import table
    from rotoscope.traces.analysis.optimum import Assumptions
    from rotoscope.traces.analysis.profiles import profile_named
    from rotoscope.traces.assume_growth import assume_growth_of
    from rotoscope.traces.errors import UnusableInput
    from rotoscope.traces.formats.recognise import open_traces

    if as_json + as_csv + definitions > 1:
        raise UnusableInput("expected --json, --csv or --definitions, not several of them")
    name = profile or ("token" if block_size else None)
    assumptions = Assumptions(
        profile=profile_named(name, block_size=block_size) if name else None,
        decode_reuse=decode_reuse,
        preload=preload,
    )
    opened = open_traces(paths)
    if assume_growth:
        opened, said = assume_growth_of(opened)
        sys.stderr.write(f"{said}\n")
    if definitions:
        _print_definitions(table.hit_rate_rows(opened, block_size))
        return
    rows = table.rows(table.described(opened, assumptions))
    if as_json:
        typer.echo(json.dumps({"definition": table.definition(assumptions), "rows": rows}, indent=1))
    elif as_csv:
        typer.echo(table.as_csv(rows), nl=False)
    else:
        _print(rows, table.definition(assumptions))


def _print(rows: list[dict[str, Value]], definition: str) -> None:
    from rotoscope.tables import fitted, print_columns
    from rotoscope.traces.analysis.table import lines

    groups = [row for row in rows if row["scope"] != "trace"]
    headings = ("", *(str(group["label"] or "all") for group in groups))
    print_columns(headings, lines(groups))
    typer.echo(f"\n{fitted(definition)}")


def _print_definitions(lines: list[tuple[str, ...]]) -> None:
    from rotoscope.tables import print_table

    print_table(lines[0], lines[1:], right=[1])
    typer.echo("\ncache without limit, nothing preloaded, outputs kept; the traces of one corpus share one cache")
