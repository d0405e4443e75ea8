from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.sweep.folder import SweepFolder
from rotoscope.replayer.sweep.plan import SweepPlan, plan_sweep
from rotoscope.replayer.sweep.reading import is_sweep, read_plan
from rotoscope.replayer.sweep.run import FORMAT_NAME, FORMAT_VERSION, PLAN_FILE
from rotoscope.testing import make_trace
from rotoscope.traces import UnusableInput


def planned(folder: Path) -> SweepPlan:
    """Open the folder of a plan and return the plan."""
    plan = plan_sweep(
        [make_trace()],
        ReplayOptions(url="http://127.0.0.1:1"),
        concurrency=(1, 2),
        settings={"batch": ("4", "8")},
        sessions=None,
        sessions_per_user=4,
        server="command",
    )
    SweepFolder.opened(folder, file=PLAN_FILE, format_name=FORMAT_NAME, version=FORMAT_VERSION, plan=plan.as_dict())
    return plan


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = planned(tmp_path)

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
