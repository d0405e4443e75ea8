"""`rotoscope show`: one trace in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

TIME_LINE_WIDTH = 40


def show(
    trace: Annotated[
        str,
        typer.Argument(
            help="A trace file, ours or foreign; FILE#NAME is one trace of a file that holds many.", metavar="TRACE"
        ),
    ],
) -> None:
    """Show one trace: branches, calls, what each shared with what, tools, waits and a time line.

    Example: rotoscope show run.trace.json
    """
    from rotoscope.tables import print_table
    from rotoscope.traces import show as view
    from rotoscope.traces.formats.recognise import open_trace

    opened = open_trace(trace)
    typer.echo("\n".join(view.heading(opened)))
    table = view.rows(opened)
    whole = view.whole_span(table)
    cells = []
    for row in table:
        bar = view.time_line(row.span, whole, TIME_LINE_WIDTH) if row.span and whole else ""
        line = (row.branch, row.what, row.isl, row.osl, row.shares, row.new, row.cached, row.start, row.time)
        cells.append((*line, bar) if whole else line)
    print_table(view.COLUMNS if whole else view.COLUMNS[:-1], cells, right=(2, 3, 5, 6, 7, 8))
