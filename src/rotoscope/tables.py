"""Tables on stdout: fitted to a terminal, whole and without colour in a pipe.

Rich lays out the first; it is loaded for nothing else, because loading it takes longer than most tables.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence

_BETWEEN = "  "


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Print rows under headings; the columns numbered in `right` are set flush right."""
    numbers = frozenset(right)
    if sys.stdout.isatty():
        _print_fitted(headings, rows, numbers)
    else:
        sys.stdout.writelines(f"{line}\n" for line in table_lines(headings, rows, right=numbers))


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print whole rows of a name and values flush right; in a terminal they stand below one another in parts that fit it."""
    lines = [tuple(row) for row in rows]
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, part in enumerate(parts_that_fit(headings, lines, terminal)):
        sys.stdout.write("\n" if number else "")
        print_table([headings[i] for i in part], [[row[i] for i in part] for row in lines], right=range(1, len(part)))


def parts_that_fit(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[list[int]]:
    """Return the columns of each part of a table: the first one, and as many others as the width has room for."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    parts = [[0]]
    for column in range(1, len(headings)):
        needed = sum(widths[i] + len(_BETWEEN) for i in (*parts[-1], column)) - len(_BETWEEN)
        if width is not None and needed > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(column)
    return parts


def fitted(text: str) -> str:
    """Return a text in lines that fit the terminal, broken between words; in one where stdout is none."""
    return textwrap.fill(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text


def table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[int] = ()
) -> Iterator[str]:
    """Yield the lines of a table whose columns are as wide as their widest cell; a short row ends early."""
    lines = [tuple(headings), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines if column < len(line)) for column in range(len(headings))]
    for line in lines:
        cells = (
            cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])
            for column, cell in enumerate(line)
        )
        yield _BETWEEN.join(cells).rstrip()


def free_width(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> int | None:
    """Return how many characters a terminal has for one more column, below 0 too; None where stdout is none."""
    if not sys.stdout.isatty():
        return None
    widest = max(map(len, table_lines(headings, rows)))
    return shutil.get_terminal_size().columns - widest - len(_BETWEEN)


def _print_fitted(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table, markup=False, highlight=False)
