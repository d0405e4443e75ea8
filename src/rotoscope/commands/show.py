"""`rotoscope show`: one trace in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

TIME_LINE_WIDTH = 40
LEAST_TIME_LINE_WIDTH = 10
"""In a terminal that has less than this beside the other columns there is no time line."""


def show(
    trace: Annotated[
        str,
        typer.Argument(
            help="A trace file, ours or foreign; FILE#NAME is one trace of a file that holds many.", metavar="TRACE"
        ),
    ],
    waits: Annotated[
        bool, typer.Option("--waits", help="Show each wait between calls and tools, however short it is.")
    ] = False,
) -> None:
    """Show one trace: branches, calls, what each shared with what, tools, waits and a time line.

    Example: rotoscope show run.trace.json
    """
    from rotoscope.tables import free_width, print_table
    from rotoscope.traces import show as view
    from rotoscope.traces.formats.recognise import open_trace

    opened = open_trace(trace)
    typer.echo("\n".join(view.heading(opened)))
    table = view.rows(opened)
    if not waits:
        table, left_out = view.without_short_waits(table, TIME_LINE_WIDTH)
        if left_out:
            typer.echo(f"{left_out}: --waits shows them")
    columns: tuple[str, ...] = view.COLUMNS[:-1]
    cells: list[tuple[str, ...]] = [
        (row.branch, row.what, row.isl, row.osl, row.shares, row.new, row.cached, row.start, row.time) for row in table
    ]
    if (whole := view.whole_span(table)) and (width := time_line_width(free_width(columns, cells))):
        bars = [view.time_line(row.span, whole, width) if row.span else "" for row in table]
        columns, cells = view.COLUMNS, [(*line, bar) for line, bar in zip(cells, bars, strict=True)]
    print_table(columns, cells, right=(2, 3, 5, 6, 7, 8))


def time_line_width(free: int | None) -> int:
    """Return how wide time lines are where so much is free beside the other columns, 0 where there are none."""
    if free is None or free >= TIME_LINE_WIDTH:
        return TIME_LINE_WIDTH
    return free if free >= LEAST_TIME_LINE_WIDTH else 0
