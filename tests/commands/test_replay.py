from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import rotoscope_process
from aiohttp import web
from completion_server import (
    completions_in_a_thread,
    good_answer,
    serving_completions,
    stream,
    stream_and_hang,
    token_event,
)
from foreign_traces import request, weka
from mooncake_files import lines, row
from typed_commands import Run, typed

from rotoscope.testing import make_trace
from rotoscope.traces import save
from rotoscope.traces.corpus import CorpusName, Member, write_manifest
from rotoscope.traces.formats import open_traces
from rotoscope.traces.publish import PublishOptions, publish

PATIENCE_S = 120.0
"""Only a failure takes as long."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs the command in this process, in a folder of its own that holds `run.trace.json`."""
    monkeypatch.chdir(tmp_path)
    save(make_trace(turns=2, tool_ms=1.0), tmp_path / "run.trace.json")
    return typed(monkeypatch, capsys, "replay", "--no-preflight")


async def perfect(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return await stream(request, good_answer(body))


async def failing(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"error": {"message": "out of order"}}, status=500)


def test_a_simulated_replay_needs_no_server_and_says_what_it_is(run: Run) -> None:
    ended = run("run.trace.json", "--simulate", "--set", "blocks=1024", "--set", "max_batch=2", "--sessions", "8")

    assert ended.code == 0
    assert "simulated" in ended.out
    assert "8 of 8 done" in ended.out
    assert "measured on a simulator: its times are modelled" in ended.err
    summary = json.loads(Path("results/replay-1/summary.json").read_text())
    assert summary["setup"]["simulated"]


def test_a_replay_is_of_a_server_or_of_a_simulation(run: Run) -> None:
    ended = run("run.trace.json")

    assert ended.code == 2
    assert "expected --url of a server or --simulate" in ended.err


def test_a_replay_prints_its_table_and_says_first_where_results_go(run: Run) -> None:
    with completions_in_a_thread(perfect) as server:
        ended = run("run.trace.json", "--url", server.url, "--sessions", "3")

    assert ended.code == 0
    assert ended.err.splitlines()[0] == "results go to results/replay-1"
    assert "3 of 3 done" in ended.out
    assert "jobs/h/GPU" in ended.out
    assert "TTFT, ms" in ended.out
    assert "\x1b" not in ended.out + ended.err
    assert len((Path("results/replay-1") / "results.jsonl").read_text().splitlines()) == 6


def test_an_open_loop_takes_its_rate_with_a_unit(run: Run) -> None:
    with completions_in_a_thread(perfect) as server:
        load = ("--sessions", "3", "--rate", "100/s", "--arrivals", "gamma:2")
        ended = run("run.trace.json", "--url", server.url, *load, "--skip-gate", "jobs")
        unitless = run("run.trace.json", "--url", server.url, "--rate", "100")

    assert ended.code == 0
    assert "gamma:2 arrivals, 360,000/h" in ended.out
    assert "too few sessions to tell whether the server keeps up" in ended.err or "no rates" in ended.err
    assert (unitless.code, unitless.out) == (2, "")
    assert "such as 720/h" in unitless.err


def test_a_file_of_many_sessions_is_replayed_when_they_were_recorded(run: Run) -> None:
    starts_ms = (0, 10, 100)
    Path("many.jsonl").write_bytes(lines(*(row(at_ms, number, out=2) for number, at_ms in enumerate(starts_ms))))
    with completions_in_a_thread(perfect) as server:
        ended = run("many.jsonl", "--url", server.url, "--arrivals", "recorded", "--skip-gate", "jobs")
        clockless = run("run.trace.json", "--url", server.url, "--arrivals", "recorded")

    assert ended.code == 0
    assert "of 3 traces, recorded arrivals" in ended.out
    sessions = [json.loads(line) for line in Path("results/replay-1/sessions.jsonl").read_text().splitlines()]
    planned_s = sorted(one["admitted_s"] - one["lag_s"] for one in sessions)
    assert planned_s == pytest.approx([0.0, 0.01, 0.1], abs=1e-5)
    assert (clockless.code, clockless.out) == (2, "")
    assert "do not say when they started" in clockless.err


def test_answers_within_limits_are_counted(run: Run) -> None:
    with completions_in_a_thread(perfect) as server:
        ended = run("run.trace.json", "--url", server.url, "--goodput", "latency:600,ttft:500")
        wrong = run("run.trace.json", "--url", server.url, "--goodput", "e2el:600")

    assert "2 of 2 requests within ttft:500,latency:600" in ended.out
    assert (wrong.code, wrong.out) == (2, "")
    assert "choose of ttft, itl, tpot, latency" in wrong.err


def test_a_mix_gives_paths_their_weights(run: Run) -> None:
    save(make_trace(turns=1), Path("other.trace.json"))
    with completions_in_a_thread(perfect) as server:
        ended = run(
            "run.trace.json", "other.trace.json", "--url", server.url, "--mix", "1:3", "--sessions", "8", "--json"
        )
        wrong = run("run.trace.json", "--url", server.url, "--mix", "1:3", "--sessions", "8")

    summary = json.loads(ended.out)
    assert summary["setup"]["mix"] == [1.0, 3.0]
    assert summary["sessions"]["ok"] == 8
    assert summary["requests"]["planned"] == summary["requests"]["ok"] == 2 * 2 + 6
    assert (wrong.code, wrong.out) == (2, "")
    assert "a weight for each path: 1 path, not 2" in wrong.err


def test_corpora_in_folders_are_mixed_by_their_weights(run: Run) -> None:
    for name, traces in (("a", 3), ("b", 2)):
        files = [f"{number}.trace.json" for number in range(traces)]
        Path(name).mkdir()
        for file in files:
            save(make_trace(turns=1), Path(name) / file)
        members = [Member(name=file, trace=make_trace(turns=1), start_ms=10.0) for file in files]
        write_manifest(Path(name), zip(files, members, strict=True))
    with completions_in_a_thread(perfect) as server:
        ended = run("a", "b", "--url", server.url, "--mix", "3:1", "--sessions", "8", "--json")
        clockless = run("a", "b", "--url", server.url, "--arrivals", "recorded")

    assert json.loads(ended.out)["setup"]["traces"] == 5
    sessions = [json.loads(line) for line in Path("results/replay-1/sessions.jsonl").read_text().splitlines()]
    assert Counter(one["trace"] for one in sessions) == {0: 2, 1: 2, 2: 2, 3: 1, 4: 1}
    assert (clockless.code, clockless.out) == (2, "")
    assert "no common clock" in clockless.err


def test_a_fixed_shape_takes_the_place_of_paths(run: Run) -> None:
    with completions_in_a_thread(perfect) as server:
        load = ("--sessions", "4", "--concurrency", "2")
        ended = run("--fixed", "40:3", "--url", server.url, *load, "--skip-gate", "jobs")

    assert ended.code == 0
    assert "of one request of 40 + 3 tokens, concurrency 2" in ended.out
    assert json.loads(Path("results/replay-1/summary.json").read_bytes())["setup"]["fixed"] == {"isl": 40, "osl": 3}
    assert [len(body["prompt"]) for body in server.bodies] == [40] * 4
    assert len({body["prompt"][0] for body in server.bodies}) == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "there is neither"),
        (["run.trace.json", "--fixed", "4:3"], "not both"),
        (["--fixed", "4:3"], "give --sessions, --duration or --until-ci"),
        (["--fixed", "4:3", "--sessions", "2", "--mix", "1"], "leave out --mix"),
        (["--fixed", "4:3", "--arrivals", "recorded"], "do not say when they started"),
        (["--fixed", "4"], "such as 1024:256"),
    ],
)
def test_what_is_replayed_is_said_once(run: Run, arguments: list[str], says: str) -> None:
    ended = run(*arguments, "--url", "http://127.0.0.1:9")

    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert not Path("results").exists()


def test_json_is_the_summary_as_it_stands_in_the_file(run: Run) -> None:
    with completions_in_a_thread(perfect) as server:
        ended = run("run.trace.json", "--url", server.url, "--json", "-o", "there")

    assert json.loads(ended.out) == json.loads(Path("there/summary.json").read_text())


def test_a_folder_is_replayed_completely(run: Run) -> None:
    Path("more").mkdir()
    for number in range(15):
        save(make_trace(turns=1), Path("more") / f"{number}.trace.json")
    with completions_in_a_thread(perfect) as server:
        run("run.trace.json", "more", "--url", server.url, "--concurrency", "4")

    assert len(server.bodies) == 17


def test_options_reach_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "k")
    options = "--model other --seed 7 --salt mine --gpus 4 --profile trtllm --vocab 9:90 --timeout 50 --gap-scale 0.5"
    with completions_in_a_thread(perfect) as server:
        ended = run(
            "run.trace.json",
            "--url",
            server.url,
            *options.split(),
            "--gap-cap",
            "2",
            "--api-key-env",
            "THE_KEY",
            "--json",
        )

    setup = json.loads(ended.out)["setup"]
    assert {
        name: setup[name] for name in ("model", "seed", "salt", "gpus", "gpus_assumed", "profile", "vocabulary")
    } == {
        "model": "other",
        "seed": 7,
        "salt": "mine",
        "gpus": 4,
        "gpus_assumed": False,
        "profile": "trtllm",
        "vocabulary": "9:90",
    }
    assert (setup["timeout_s"], setup["gap_scale"], setup["gap_cap_s"]) == (50.0, 0.5, 2.0)


def test_results_name_the_corpus_the_command_and_the_server(run: Run) -> None:
    publish(open_traces(["run.trace.json"]), Path("corpus"), PublishOptions(called=CorpusName("coding-agents", "1.0")))
    with completions_in_a_thread(perfect) as server:
        ended = run("corpus", "--url", server.url, "--salt", "mine", "--seed", "7", "--json", "-o", "there")

    setup = json.loads(ended.out)["setup"]
    trace = hashlib.sha256(Path("corpus/trace-0001.trace.json").read_bytes()).hexdigest()
    assert setup["command"] == "rotoscope replay CORPUS --no-preflight --seed 7"
    assert (setup["corpus_name"], setup["corpus_version"]) == ("coding-agents", "1.0")
    assert setup["corpus_sha256"] == hashlib.sha256(f"{trace}\n".encode()).hexdigest()
    assert setup["server_version"] is None


def test_growth_may_be_assumed_and_the_summary_says_so(run: Run) -> None:
    Path("x.json").write_bytes(weka(request(0, [1, 2], tail=5, out=30), request(5, [1, 2, 3])))
    with completions_in_a_thread(perfect) as server:
        options = ("--gaps", "none", "--assume-growth", "-o", "out")
        ended = run("x.json", "--url", server.url, *options)

    assert ended.code == 0
    assert "assumed for 1 of 2 calls" in ended.err
    first, second = sorted((body["prompt"] for body in server.bodies), key=len)
    assert second[:133] == first
    assert [len(first), len(second)] == [133, 192]
    assert any("is assumed" in note for note in json.loads(Path("out/summary.json").read_bytes())["notes"])


def test_what_is_kept_of_gaps_is_named(run: Run) -> None:
    with completions_in_a_thread(perfect) as server:
        ended = run("run.trace.json", "--url", server.url, "--gaps", "tools", "--json")
        wrong = run("run.trace.json", "--url", server.url, "--gaps", "waits")

    assert json.loads(ended.out)["setup"]["gaps"] == "tools"
    assert (wrong.code, wrong.out) == (2, "")
    assert "choose one of recorded, tools, none" in wrong.err


def test_some_sessions_failed_is_3(run: Run) -> None:
    requests = 0

    async def last_fails(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        return await (perfect if requests < 6 else failing)(request, body)

    with completions_in_a_thread(last_fails) as server:
        ended = run("run.trace.json", "--url", server.url, "--sessions", "3")

    assert ended.code == 3
    assert "request failed: server_error: out of order" in ended.err
    assert "2 of 3 done, 1 failed" in ended.out


def test_a_run_that_is_not_valid_says_so_first_and_is_3(run: Run) -> None:
    load = ("--sessions", "3", "--concurrency", "1")
    with completions_in_a_thread(perfect) as server:
        ended = run("run.trace.json", "--url", server.url, *load)
        in_json = run("run.trace.json", "--url", server.url, *load, "--json")

    assert (ended.code, in_json.code) == (3, 3)
    first, second, *_ = ended.out.splitlines()
    assert first == "INVALID: 1 of 8 gates failed"
    assert second.startswith("  jobs: 1.0 jobs lie in the steady-state window")
    assert "INVALID: 1 of 8 gates failed\n  jobs: " in in_json.err
    assert json.loads(in_json.out)["validity"]["valid"] is False
    assert {path.name for path in Path("results/replay-1").iterdir()} >= {
        "results.jsonl",
        "sessions.jsonl",
        "summary.json",
    }


def test_a_gate_that_is_skipped_is_named_and_an_unknown_one_refused(run: Run) -> None:
    load = ("--sessions", "3", "--concurrency", "1")
    with completions_in_a_thread(perfect) as server:
        ended = run("run.trace.json", "--url", server.url, *load, "--skip-gate", "jobs", "--skip-gate", "lag")
        unknown = run("run.trace.json", "--url", server.url, "--skip-gate", "speed")

    assert ended.code == 0
    assert "not checked: lag, jobs" in ended.out.splitlines()[1]
    assert (unknown.code, unknown.out) == (2, "")
    assert "no gate 'speed': choose of output-lengths, prompt-lengths" in unknown.err


def test_all_sessions_failed_is_1(run: Run) -> None:
    with completions_in_a_thread(failing) as server:
        assert run("run.trace.json", "--url", server.url).code == 1


def test_nobody_listening_is_1_in_one_line(run: Run) -> None:
    ended = run("run.trace.json", "--url", "http://127.0.0.1:1")

    assert ended.code == 1
    assert ended.err == "error: nothing listens at http://127.0.0.1:1/v1: start the server or correct the URL\n"
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run.trace.json", "--url", "ftp://x"), "no URL of a server"),
        (("nothing.json", "--url", "http://127.0.0.1:1"), "nothing.json"),
        (("run.trace.json", "--url", "http://127.0.0.1:1", "--vocab", "all"), "LOW:HIGH"),
        (("run.trace.json", "--url", "http://127.0.0.1:1", "--api-key-env", "UNSET_KEY"), "'UNSET_KEY' is not set"),
        (("run.trace.json",), "--url"),
    ],
)
def test_wrong_usage_is_2(run: Run, arguments: tuple[str, ...], says: str) -> None:
    ended = run(*arguments)

    assert ended.code == 2
    assert says in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_is_130_and_keeps_what_was_measured(run: Run, number: signal.Signals) -> None:
    requests = 0

    async def interrupting(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        if requests < 4:
            return await perfect(request, body)
        os.kill(os.getpid(), number)
        return await stream_and_hang(request, [token_event(5)])

    with completions_in_a_thread(interrupting) as server:
        ended = run("run.trace.json", "--url", server.url, "--sessions", "9")

    assert ended.code == 130
    assert "1 of 9 done, 1 cancelled" in ended.out
    statuses = [json.loads(line)["status"] for line in Path("results/replay-1/results.jsonl").read_text().splitlines()]
    assert statuses == ["ok", "ok", "ok", "cancelled"]
    assert json.loads(Path("results/replay-1/summary.json").read_text())["interrupted"]


def test_a_run_goes_on_where_nobody_reads_what_is_said(run: Run) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "rotoscope", "replay", "run.trace.json", "--simulate", "-o", "out"]

    with os.fdopen(writing, "w") as nobody:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=nobody, timeout=PATIENCE_S, check=False)

    assert done.returncode == 0
    assert b"1 of 1 done" in done.stdout
    assert Path("out/summary.json").exists()


def test_a_process_that_is_told_to_end_ends(run: Run) -> None:
    interrupt = asyncio.Event()

    async def interrupting(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        interrupt.set()
        return await stream_and_hang(request, [token_event(5)])

    async def interrupted() -> rotoscope_process.Ended:
        async with serving_completions(interrupting) as server:
            arguments = ("replay", "run.trace.json", "--url", server.url, "--no-preflight")
            async with rotoscope_process.rotoscope(*arguments) as process:
                await asyncio.wait_for(interrupt.wait(), PATIENCE_S)
                process.terminate()
                return await rotoscope_process.ended(process)

    done = asyncio.run(interrupted())

    assert done.status == 130
    assert "interrupted" in done.err
    assert "0 of 1 done, 1 cancelled" in done.out
