"""Whatever stands in a foreign file, and wherever: no text of it is in a trace, a name, an account, a log or an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_damage import every_place
from format_samples import SAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rotoscope.traces import TraceError, dumps
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.registry import Format, all_formats
from rotoscope.traces.formats.source import Source

CANARY = "CANARY"
FOREIGN = [known for known in all_formats() if known.name != "rotoscope" and known.name in SAMPLES]
JSON = [known for known in FOREIGN if SAMPLES[known.name][0].lstrip().startswith(b"{")]


def with_canary(value: Any, which: int, how: int) -> None:
    """Put the canary in the place of a value or of a key."""
    places = every_place(value)
    container, key = places[which % len(places)]
    if how == 0 and isinstance(container, dict):
        container[CANARY] = container.pop(key)
    else:
        container[key] = (CANARY, [CANARY], {CANARY: CANARY})[how % 3]


def said_of(known: Format, data: bytes) -> str:
    """All that is written or said when a file is read."""
    fidelity = Fidelity()
    try:
        members = known.read(Source.of_bytes(data, "x"), fidelity)
    except TraceError as error:
        return str(error)
    return "\n".join([*(f"{m.name} {dumps(m.trace).decode()}" for m in members), *fidelity.lines()])


@pytest.mark.parametrize("known", JSON, ids=lambda known: known.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    which=st.integers(0, 1), edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2)), min_size=1, max_size=3)
)
def test_no_text_of_a_file_is_said_or_written(
    known: Format, which: int, edits: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    samples = SAMPLES[known.name]
    try:
        rows = [json.loads(line) for line in samples[which % len(samples)].splitlines()]
    except json.JSONDecodeError:
        rows = [json.loads(samples[which % len(samples)])]
    for place, how in edits:
        with_canary(rows, place, how)

    said = said_of(known, b"\n".join(json.dumps(row).encode() for row in rows))

    assert CANARY not in said
    assert CANARY not in caplog.text


@given(st.integers(0, 100), st.integers(0, 100))
def test_no_cell_of_a_csv_is_said_or_written(line: int, column: int) -> None:
    (known,) = (known for known in FOREIGN if known.name == "tracelab-csv")
    rows = [row.split(",") for row in SAMPLES[known.name][0].decode().splitlines()]
    row = rows[line % len(rows)]
    row[column % len(row)] = CANARY

    assert CANARY not in said_of(known, "\n".join(map(",".join, rows)).encode())
