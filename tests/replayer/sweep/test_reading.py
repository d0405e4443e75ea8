from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from sweep_folders import make_sweep

from rotoscope.replayer.sweep.reading import is_sweep, read_plan
from rotoscope.replayer.sweep.run import FORMAT_NAME, FORMAT_VERSION, PLAN_FILE
from rotoscope.traces import UnusableInput


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    _, plan = make_sweep(tmp_path, batch=("4", "8"))

    assert read_plan(tmp_path) == plan
    assert is_sweep(tmp_path)
    assert not is_sweep(tmp_path / "points")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b"{}", "damaged"),
        (orjson.dumps({"format": {"name": FORMAT_NAME, "version": FORMAT_VERSION}}), "damaged"),
        (orjson.dumps({"format": {"name": FORMAT_NAME, "version": 99}}), "version"),
    ],
)
def test_what_is_no_plan_is_said_to_be_none(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / PLAN_FILE).write_bytes(content)

    with pytest.raises(UnusableInput, match=said):
        read_plan(tmp_path)


def test_a_plan_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="cannot be read"):
        read_plan(tmp_path)
