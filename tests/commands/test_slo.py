from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed_commands import Run, typed

from rotoscope.testing import make_trace
from rotoscope.traces import save


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs the command in this process, in a folder of its own that holds `run.trace.json`."""
    monkeypatch.chdir(tmp_path)
    save(make_trace(turns=2, isl=200, osl=5, system=0), tmp_path / "run.trace.json")
    return typed(monkeypatch, capsys, "slo", "run.trace.json", "-o", "out")


def test_the_most_agents_of_a_simulated_server(run: Run) -> None:
    """One request runs at a time and takes as long as any other: the time in the queue grows with the agents."""
    arguments = ("--simulate", "--set", "max_batch=1", "--p90-latency", "500ms", "--repeats", "1", "--most", "64")
    ended = run(*arguments)

    assert ended.code == 0, ended.err
    answer = json.loads(Path("out/answer.json").read_text())
    assert answer["unmet"] == answer["met"] + 1
    assert f"{answer['met']} agents meet the objectives: 1 of 1 run" in ended.out
    assert f"{answer['unmet']} do not: 0 of 1 run" in ended.out
    assert "p90_latency <= 500.0 ms" in ended.out
    assert ended.out.endswith("\nsimulated: times are modelled, no model was computed\n")
    assert answer["simulated"] is True
    again = run(*arguments)
    assert again.out == ended.out
    assert ", run 1 of 1" not in again.err


def test_objectives_that_nobody_meets_are_3(run: Run) -> None:
    ended = run("--simulate", "--p50-ttft", "0.001ms", "--repeats", "3")

    assert ended.code == 3
    assert "not even 1 agent meets the objectives: 0 of 2 runs" in ended.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--simulate",), "expected an objective, such as --p95-ttft 2s"),
        (("--simulate", "--p95-ttft", "2"), "with its unit, such as 50ms"),
        (("--p95-ttft", "2s"), "expected the --url of a server"),
        (("--simulate", "--p95-ttft", "2s", "--set", "max_batch=1,2"), "one value to each --set"),
        (("--simulate", "--p95-ttft", "2s", "--from", "9", "--most", "8"), "--from to be no more than --most"),
        (("--simulate", "--p95-ttft", "2s", "--sessions-per-user", "1"), "sessions-per-user"),
    ],
)
def test_wrong_usage_is_2_and_leaves_nothing(run: Run, arguments: tuple[str, ...], says: str) -> None:
    ended = run(*arguments)

    assert ended.code == 2
    assert says in ended.err
    assert not Path("out").exists()
