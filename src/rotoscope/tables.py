"""Tables on stdout: fitted to a terminal, whole and without colour in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 400
"""Columns of a line that goes into a pipe or a file: nothing is cut there."""


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Print rows under headings; the columns numbered in `right` are set flush right."""
    numbers = set(right)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    stdout_console().print(table, markup=False, highlight=False)


def stdout_console() -> Console:
    """Return a console that writes to stdout, as wide as the terminal or as any line needs."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)
