from __future__ import annotations

import io

import pytest

from rotoscope.replayer.sweep.rows import Row
from rotoscope.replayer.sweep.tabular import columns_of, csv_bytes, parquet_bytes

ROWS: list[Row] = [
    {"point": 1, "batch": "8", "valid": "yes", "rate": 1, "on": True},
    {"point": 2, "batch": "16", "valid": "no", "failures.dns": 3, "rate": 2.5, "on": False},
    {"point": 3, "batch": "a,b"},
]


def test_columns_of_later_rows_stand_where_they_stand_there() -> None:
    assert columns_of(ROWS) == ["point", "batch", "valid", "failures.dns", "rate", "on"]


def test_csv_has_headings_and_empty_cells() -> None:
    assert csv_bytes(ROWS).decode().splitlines() == [
        "point,batch,valid,failures.dns,rate,on",
        "1,8,yes,,1,true",
        "2,16,no,3,2.5,false",
        '3,"a,b",,,,',
    ]


def test_parquet_has_the_same_columns_each_of_one_type() -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow is installed here")
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(parquet_bytes(ROWS) or b""))

    assert table.to_pydict() == {
        "point": [1, 2, 3],
        "batch": ["8", "16", "a,b"],
        "valid": ["yes", "no", None],
        "failures.dns": [None, 3, None],
        "rate": [1.0, 2.5, None],
        "on": [True, False, None],
    }
    assert [str(field.type) for field in table.schema] == ["int64", "string", "string", "int64", "double", "bool"]
