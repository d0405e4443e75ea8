from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.commands.show import time_line_width
from rotoscope.testing import make_trace
from rotoscope.traces import dumps


def shown(path: Path) -> str:
    done = CliRunner().invoke(app, ["show", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "run.trace.json"
    path.write_bytes(dumps(make_trace(turns=60)))
    return path


def test_calls_tools_and_shared_tokens_are_shown(recorded: Path) -> None:
    text = shown(recorded)

    assert "60 calls, 94,500 prompt tokens, 1,200 output tokens" in text
    assert "shared prefix s0: system, 40 tokens" in text
    assert "120 of call 0 (ids)" in text
    assert text.count("tool0 for call") == 59
    assert (text.count("+2 messages"), text.count("+1 message")) == (1, 59)
    assert "time line" in text


@pytest.mark.parametrize(("free", "width"), [(None, 40), (90, 40), (40, 40), (39, 39), (10, 10), (9, 0), (-60, 0)])
def test_time_lines_take_what_a_terminal_has_left(free: int | None, width: int) -> None:
    assert time_line_width(free) == width


def test_keys_in_another_order_change_nothing(recorded: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = shown(recorded)
    recorded.write_text(json.dumps(json.loads(recorded.read_bytes()), sort_keys=True, indent=1))

    assert shown(recorded) == before
    assert caplog.text == ""


def test_short_waits_are_shown_when_asked_for() -> None:
    trace = str(Path(__file__).parents[2] / "examples/traces/react/run-01.trace.json")

    short, whole = (CliRunner().invoke(app, ["show", trace, *more]).stdout for more in ([], ["--waits"]))

    left_out = whole.count("wait: think") - short.count("wait: think")
    assert left_out > 0
    assert f"\n{left_out} waits below " in short
    assert "left out" not in whole
