from dataclasses import replace
from pathlib import Path

import pytest

from examples import demo
from examples.demo import Loop, Settings, broken_promises, new_folder, rows, run, show
from rotoscope.replayer.summary import Summary
from rotoscope.traces.errors import RunFailed
from rotoscope.traces.model import Call, Trace

FAST = Settings(seed=4, speed="max", gap_scale=0, sessions=2, concurrency=2)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Loop:
    return run(tmp_path_factory.mktemp("demo"), FAST)


def with_cached_tokens(trace: Trace, call: int, more: int) -> Trace:
    """Return the trace as if the server had told some more cached tokens for one call."""
    events = [
        replace(event, cached_tokens=(event.cached_tokens or 0) + more)
        if isinstance(event, Call) and event.call == call
        else event
        for event in trace.events
    ]
    return replace(trace, events=tuple(events))


def with_optimum(summary: Summary, *, less: int) -> Summary:
    first, *others = summary.optimal_tokens
    return replace(summary, optimal_tokens=(first, others[0] - less, *others[1:]))


def test_the_replay_does_what_the_server_did_and_meets_the_optimum(loop: Loop) -> None:
    assert broken_promises(loop) == []


def test_one_block_apart_from_live_is_allowed_and_more_is_told(loop: Loop) -> None:
    assert broken_promises(replace(loop, live=with_cached_tokens(loop.live, 3, 1))) == []
    (told,) = broken_promises(replace(loop, live=with_cached_tokens(loop.live, 3, 100)))

    assert told.startswith("call 3: ")


def test_one_token_off_the_optimum_is_told(loop: Loop) -> None:
    (told,) = broken_promises(replace(loop, again=with_optimum(loop.again, less=1)))

    assert told.startswith("call 1 again: ")


def test_a_warm_server_that_hits_something_else_is_told(loop: Loop) -> None:
    one, *others = loop.again.request_results
    changed = replace(loop.again, request_results=(replace(one, cached_tokens=16), *others))

    assert broken_promises(replace(loop, again=changed)) == [
        "call 0 again: 16 tokens cached, the optimum is 0",
        "the replay on the warm server does not say the same as the first one",
    ]


def test_every_replay_fills_its_column(loop: Loop) -> None:
    table = {name: cells for name, *cells in rows(loop)}

    calls = len(list(loop.live.calls()))
    assert table["calls"] == [str(calls)] * 3 + [str(2 * calls)]
    assert table["hit rate"][1] == table["optimum"][1] == table["hit rate"][2]
    assert all("-" not in cells for name, cells in table.items() if not name.startswith("jobs/h"))
    assert table["jobs/h/GPU"][:3] == ["-", "-", "-"]


def test_what_is_shown_says_that_it_is_simulated(loop: Loop, capsys: pytest.CaptureFixture[str]) -> None:
    show(loop, FAST, ["something"])

    shown = capsys.readouterr().out
    assert "SIMULATED" in shown
    assert "DOES NOT HOLD: something" in shown


@pytest.mark.parametrize(("status", "kind"), [(143, SystemExit), (1, RunFailed)])
def test_a_recording_that_was_interrupted_ends_the_demo(
    status: int, kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "run_command", lambda command, environment: status)

    with pytest.raises(kind, match=str(status)):
        demo.record(tmp_path, "http://127.0.0.1:1/v1", FAST)


def test_each_demo_has_a_folder_of_its_own(tmp_path: Path) -> None:
    parent = tmp_path / "results"

    assert [new_folder(parent).name, new_folder(parent).name] == ["demo-1", "demo-2"]
