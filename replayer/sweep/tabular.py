"""Rows as files for programs: CSV, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from rotoscope.replayer.sweep.rows import Row, Value

WITHOUT_PARQUET = "no Parquet: pip install 'rotoscope[parquet]' and call it again"


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Return all columns; one that only later rows have stands behind the one that it follows there."""
    columns: list[str] = []
    for row in rows:
        place = 0
        for name in row:
            if name in columns:
                place = columns.index(name) + 1
            else:
                columns.insert(place, name)
                place += 1
    return columns


def csv_bytes(rows: Sequence[Row]) -> bytes:
    """Return rows as CSV: a line of headings, `true` and `false`, nothing where a row has no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = columns_of(rows)
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode()


def parquet_bytes(rows: Sequence[Row]) -> bytes | None:
    """Return the same as Parquet, each column of one type; None where there is no pyarrow."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        return None
    columns = {name: _column([row.get(name) for row in rows]) for name in columns_of(rows)}
    file = io.BytesIO()
    parquet.write_table(arrow.table(columns), file)
    return file.getvalue()


def parquet_rows(data: bytes) -> list[dict[str, Value]] | None:
    """Return the rows of a Parquet file, without what they have no value for; None where it cannot be read."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return None
    try:
        rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    except (ArrowException, OSError, ValueError):
        return None
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _cell(value: Value | None) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _column(values: list[Value | None]) -> list[Any]:
    """Return values of one type: numbers as floats where any is one, else texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2:
        return values
    kind = float if kinds == {int, float} else str
    return [None if value is None else kind(value) for value in values]
