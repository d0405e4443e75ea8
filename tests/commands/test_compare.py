from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from noisy_runs import Machine, replay_on
from typed_commands import Run, typed


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs the command in a folder that holds the runs `before` and `after`, twice as slow."""
    monkeypatch.chdir(tmp_path)
    replay_on(Machine(), tmp_path / "before", noise=1)
    replay_on(Machine(slowness=2.0), tmp_path / "after", noise=2)
    return typed(monkeypatch, capsys, "compare")


def test_it_says_which_is_worse_and_by_how_much(run: Run) -> None:
    ended = run("before", "after", "--confidence", "99")

    assert ended.code == 0
    first, *lines = ended.out.splitlines()
    assert first.split() == ["compare", "A", "B", "B", "against", "A,", "at", "99", "%"]
    (latency,) = (line for line in lines if line.startswith("job latency, s"))
    assert "B is worse: +" in latency
    assert any(line.startswith("where the time of a job goes") for line in lines)
    assert any(line.startswith("trace 2") for line in lines)
    assert "paired by session, 48 in all runs" in lines


def test_a_run_and_itself_do_not_differ(run: Run) -> None:
    ended = run("before", "before")

    assert ended.code == 0
    assert "B is" not in ended.out


def test_json_holds_the_same(run: Run) -> None:
    told = orjson.loads(run("before", "after", "--json").out)

    assert told["points"][0]["numbers"][0]["verdict"] == "worse"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("before", "after", "--fail-if-worse", "0"), 1),
        (("before", "after", "--fail-if-worse", "40"), 1),
        (("before", "after", "--fail-if-worse", "300"), 0),
        (("after", "before", "--fail-if-worse", "0"), 0),
        (("before", "before", "--fail-if-worse", "0"), 0),
    ],
)
def test_a_pipeline_fails_where_it_is_asked_to(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run(*arguments).code == code


def test_a_pipeline_does_not_pass_where_nothing_could_be_seen(run: Run, tmp_path: Path) -> None:
    for name, slowness in (("a", 1.0), ("b", 3.0)):
        replay_on(Machine(slowness=slowness), tmp_path / name, noise=1, sessions=6)

    assert run("a", "b", "--fail-if-worse", "0").code == 3
    assert run("a", "b").code == 0


def test_what_is_not_valid_exits_with_3(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "after" / "summary.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"interrupted": True}))

    ended = run("before", "after", "--fail-if-worse", "0")

    assert ended.code == 3
    assert "INVALID, no verdict: B, after: interrupted" in ended.out


def test_another_load_is_refused(run: Run, tmp_path: Path) -> None:
    replay_on(Machine(), tmp_path / "other", noise=1, concurrency=2)

    ended = run("before", "other")

    assert ended.code == 2
    assert ended.err == (
        "error: not the same load: concurrency 4 in A, 2 in B: replay both with the same traces and options\n"
    )


def test_a_folder_without_results_is_refused(run: Run) -> None:
    ended = run("before", "nowhere")

    assert ended.code == 2
    assert "'nowhere' holds no results" in ended.err
