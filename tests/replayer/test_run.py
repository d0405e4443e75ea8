from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from completion_server import DONE, event, good_answer, serving_completions, stream, stream_and_hang, token_event
from event_loops import in_event_loop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_server import serving
from strategies import traces

from rotoscope.replayer.lanes import Progress
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.result_files import RESULT_KINDS
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import NO_GAPS
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import ParallelStart, Prefix, RunFailed, Trace, UnusableInput
from rotoscope.traces.analysis.optimum import Assumptions, planned_hits
from rotoscope.traces.analysis.profiles import PROFILES
from rotoscope.traces.audit import audit

CANARY = "canary-5f0c2e"


async def perfect(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return await stream(request, good_answer(body, cached_tokens=len(body["prompt"]) // 2))


async def replayed(traces: list[Trace], url: str, folder: Path, **options: Any) -> Summary:
    given: dict[str, Any] = {"gaps": NO_GAPS, "folder": folder, "timeout_s": 60.0, "preflight": False} | options
    return await replay_async(traces, ReplayOptions(url=url, **given))


def whole_text(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.iterdir())


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def by_call(summary: Summary) -> list[tuple[int | None, int]]:
    """Return cached and optimal tokens of each request, by session and call."""
    pairs = zip(summary.request_results, summary.optimal_tokens, strict=True)
    return [(one.cached_tokens, optimum) for one, optimum in sorted(pairs, key=lambda p: (p[0].session, p[0].call))]


@in_event_loop
async def test_every_call_of_every_trace_is_replayed(tmp_path: Path) -> None:
    many = [make_trace(turns=turns) for turns in (1, 2, 3)]
    async with serving_completions(perfect) as server:
        summary = await replayed(many, server.url, tmp_path)

    assert (summary.sessions.ok, summary.requests.ok, summary.requests.planned) == (3, 6, 6)
    assert summary.is_complete
    assert [len(body["prompt"]) for body in server.bodies] == [
        line["planned_prompt_tokens"] for line in lines(tmp_path)
    ]


@in_event_loop
async def test_with_fewer_sessions_than_traces_the_first_ones_are_replayed(tmp_path: Path) -> None:
    async with serving_completions(perfect) as server:
        summary = await replayed([make_trace(turns=2), make_trace(turns=5)], server.url, tmp_path, sessions=1)

    assert (summary.setup.traces, summary.requests.planned, summary.requests.ok) == (1, 2, 2)


@in_event_loop
async def test_a_ramp_is_told_and_kept(tmp_path: Path) -> None:
    async with serving_completions(perfect) as server:
        summary = await replayed([make_trace()], server.url, tmp_path, sessions=3, concurrency=2, ramp_s=0.05)

    assert summary.setup.ramp_s == 0.05
    sessions = [json.loads(line) for line in (tmp_path / "sessions.jsonl").read_text().splitlines()]
    assert [one["admitted_s"] >= 0.05 for one in sorted(sessions, key=lambda one: one["session"])] == [
        False,
        True,
        True,
    ]


@in_event_loop
async def test_at_a_rate_sessions_start_while_others_are_still_there(tmp_path: Path) -> None:
    """All answers wait for the last request, which a closed loop would never send."""
    asked = 0
    all_here = asyncio.Event()

    async def patient(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked == 5:
            all_here.set()
        await all_here.wait()
        return await perfect(request, body)

    async with serving_completions(patient) as server:
        summary = await replayed([make_trace(turns=1)], server.url, tmp_path, sessions=5, rate_per_h=360_000.0)

    assert summary.is_complete
    assert summary.window is None
    assert summary.schedule_lag_s is not None
    assert summary.schedule_lag_s.count == 5


@in_event_loop
async def test_with_a_duration_those_let_in_are_all_that_were_planned(tmp_path: Path) -> None:
    async with serving_completions(perfect) as server:
        summary = await replayed([make_trace(turns=2)], server.url, tmp_path, duration_s=0.05, sessions=2000)

    let_in = summary.sessions.planned
    assert 1 <= let_in < 2000
    assert (summary.sessions.ok, summary.requests.planned, summary.requests.ok) == (let_in, 2 * let_in, 2 * let_in)
    assert summary.in_flight_at_end in (0, 1)
    assert summary.is_complete


@in_event_loop
async def test_recorded_sessions_are_dropped_or_copied_and_all_of_them_are_measured(tmp_path: Path) -> None:
    traces = [make_trace(turns=turns) for turns in (1, 2, 3, 4)]
    recorded: dict[str, Any] = {"recorded_starts_s": (0.0, 0.01, 0.02, 0.03)}
    async with serving_completions(perfect) as server:
        few = await replayed(traces, server.url, tmp_path / "few", rate_per_h=180_000.0, **recorded)
        many = await replayed(traces, server.url, tmp_path / "many", rate_per_h=720_000.0, **recorded)

    assert (few.setup.sessions, few.sessions.ok) == (2, 2)
    assert few.requests.ok == few.requests.planned
    assert (many.setup.sessions, many.sessions.ok) == (8, 8)
    assert (many.requests.ok, many.requests.planned) == (20, 20)


@in_event_loop
async def test_the_same_seed_and_salt_give_the_same_prompts_and_another_salt_others(tmp_path: Path) -> None:
    async with serving_completions(perfect) as server:
        for number, salt in enumerate(["a", "a", "b"]):
            await replayed([make_trace(turns=2)], server.url, tmp_path / str(number), salt=salt)

    prompts = [body["prompt"] for body in server.bodies]
    assert prompts[0:2] == prompts[2:4]
    assert not set(map(tuple, prompts[0:2])) & set(map(tuple, prompts[4:6]))


@in_event_loop
async def test_prompts_hold_ids_of_the_vocabulary_only(tmp_path: Path) -> None:
    async with serving_completions(perfect) as server:
        await replayed([make_trace(isl=500)], server.url, tmp_path, vocabulary=Vocabulary(7, 40))

    assert set(server.bodies[0]["prompt"]) <= set(range(7, 40))


@in_event_loop
async def test_the_key_is_sent_and_written_nowhere(tmp_path: Path) -> None:
    keys = []

    async def listening(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        keys.append(request.headers["Authorization"])
        return await perfect(request, body)

    async with serving_completions(listening) as server:
        await replayed([make_trace()], server.url, tmp_path, api_key=CANARY)

    assert keys == [f"Bearer {CANARY}"]
    assert_holds_no_canary(tmp_path)


@in_event_loop
async def test_a_key_that_a_server_repeats_is_neither_shown_nor_written(tmp_path: Path) -> None:
    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        key = request.headers["Authorization"].removeprefix("Bearer ")
        return web.json_response({"error": {"message": f"wrong key {key}", "code": key}}, status=500)

    said: list[str] = []
    async with serving_completions(refuse) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, api_key="sk-CANARY7", preflight=False, gaps=NO_GAPS)
        await replay_async([make_trace()], options, say=said.append)

    assert [text for text in said if "wrong key" in text] == ["request failed: server_error: wrong key ***"]
    assert b"sk-CANARY7" not in content_of(tmp_path)


@in_event_loop
async def test_a_note_says_why_repeated_prompts_went_on_alike(tmp_path: Path) -> None:
    repeated = trace_of(
        make_call(0, isl=100, osl=20),
        make_call(1, isl=100, osl=20, prefix=Prefix(0, 100, "ids")),
        make_call(2, isl=150, prefix=Prefix(1, 120, "ids")),
    )

    async with serving_completions(perfect) as server:
        summary = await replayed([repeated], server.url, tmp_path)

    (note,) = [note for note in summary.notes if "streams went on" in note]
    assert note.startswith("1 streams went on like another one where they should part")
    assert "answered a repeated prompt as before" in note


@in_event_loop
async def test_traces_without_a_call_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="trace 2 has no call"):
        await replayed([make_trace(), trace_of()], "http://127.0.0.1:1", tmp_path)
    with pytest.raises(UnusableInput, match="no trace"):
        await replayed([], "http://127.0.0.1:1", tmp_path)


@in_event_loop
async def test_a_failed_session_does_not_stop_the_others(tmp_path: Path) -> None:
    count = 0

    async def third_fails(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count == 3:
            return web.json_response({"error": {"message": "slow down", "type": "rate_limit"}}, status=429)
        return await perfect(request, body)

    async with serving_completions(third_fails) as server:
        summary = await replayed([make_trace(turns=2)], server.url, tmp_path, sessions=3)

    assert (summary.sessions.ok, summary.sessions.failed, summary.exit_code) == (2, 1, 3)
    assert summary.failures == {"rate_limited": 1}
    failed = [line for line in lines(tmp_path) if line["status"] == "failed"]
    assert [(line["http_status"], line["error_type"]) for line in failed] == [(429, "rate_limit")]


@in_event_loop
async def test_all_sessions_failed_is_a_failure(tmp_path: Path) -> None:
    async def fail(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=500)

    async with serving_completions(fail) as server:
        summary = await replayed([make_trace(turns=2)], server.url, tmp_path, sessions=3)

    assert summary.exit_code == 1
    assert len(server.bodies) == 3


@in_event_loop
async def test_siblings_that_hang_do_not_keep_a_failed_session(tmp_path: Path) -> None:
    async def hang_or_fail(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["max_tokens"] == 7:
            return web.Response(status=500)
        return await stream_and_hang(request, [token_event(5)])

    fan_out = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, osl=20, branch=(0, 0)),
        make_call(1, osl=7, branch=(0, 1)),
    )
    async with serving_completions(hang_or_fail) as server:
        summary = await replayed([fan_out], server.url, tmp_path)

    assert (summary.requests.failed, summary.requests.cancelled) == (1, 1)


Reply = Callable[[web.Request, dict[str, Any]], Any]


def replies_with_a_canary() -> dict[str, Reply]:
    said = {"message": CANARY, "type": f"error: {CANARY}", "code": f"{CANARY} {CANARY}", "param": CANARY}

    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": said}, status=400)

    async def in_plain_text(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.Response(text=CANARY, status=503)

    async def in_a_stream(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [token_event(5), event({"error": said}), DONE])

    async def as_words(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [token_event(5, text=CANARY), token_event(6, finish_reason=CANARY), DONE])

    async def as_nonsense(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [f"data: {CANARY}\n\n".encode()])

    async def as_ids(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [event({"choices": [{"token_ids": [CANARY], "text": "x"}]}), DONE])

    async def as_counts(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        usage = {"prompt_tokens": CANARY, "completion_tokens": CANARY, "prompt_tokens_details": CANARY}
        return await stream(request, [token_event(5), event({"usage": usage, "choices": CANARY}), DONE])

    replies: list[Reply] = [refuse, in_plain_text, in_a_stream, as_words, as_nonsense, as_ids, as_counts]
    return {reply.__name__: reply for reply in replies}


@pytest.mark.parametrize("name", replies_with_a_canary())
@in_event_loop
async def test_nothing_that_a_server_says_is_written_or_logged(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving_completions(replies_with_a_canary()[name]) as server:
        await replayed([make_trace(turns=2)], server.url, tmp_path)

    assert_holds_no_canary(tmp_path)
    assert CANARY not in caplog.text


@in_event_loop
async def test_a_servers_message_is_shown_once(tmp_path: Path) -> None:
    said: list[str] = []
    async with serving_completions(replies_with_a_canary()["refuse"]) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, preflight=False, sessions=3)
        await replay_async([make_trace()], options, say=said.append)

    assert [text for text in said if CANARY in text] == [f"request failed: bad_request: {CANARY}"]
    assert said[0] == f"results go to {tmp_path}"


def content_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def assert_holds_no_canary(folder: Path) -> None:
    assert b'"planned_prompt_tokens"' in content_of(folder)
    assert CANARY.encode() not in content_of(folder)


@in_event_loop
async def test_results_say_nothing_of_the_servers_address(tmp_path: Path) -> None:
    cards = [{"id": "/home/somebody/models/tiny.gguf"}]
    async with serving_completions(perfect, cards=cards) as server:
        summary = await replayed([make_trace()], server.url, tmp_path)
    written = content_of(tmp_path)

    assert server.url.rpartition(":")[2].encode() not in written
    assert b"127.0.0.1" not in written
    assert b"somebody" not in written
    assert summary.setup.model == "tiny.gguf"
    assert server.bodies[0]["model"] == "/home/somebody/models/tiny.gguf"


@in_event_loop
async def test_a_cancelled_run_leaves_its_summary(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hang(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        begun.set()
        return await stream_and_hang(request, [token_event(5)])

    async with serving_completions(hang) as server:
        task = asyncio.create_task(replayed([make_trace()], server.url, tmp_path))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["interrupted"]
    assert summary["requests"] == {"planned": 1, "ok": 0, "failed": 0, "cancelled": 1}
    assert [line["status"] for line in lines(tmp_path)] == ["cancelled"]


@in_event_loop
async def test_progress_is_told_and_ends_with_all_done(tmp_path: Path) -> None:
    told: list[Progress] = []
    async with serving_completions(perfect) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, preflight=False, gaps=NO_GAPS)
        await replay_async([make_trace(turns=3)], options, watch=told.append)

    assert (told[0].requests_ended, told[-1].requests_ended, told[-1].sessions_ended) == (0, 3, 1)


@in_event_loop
async def test_what_was_there_before_a_run_is_garbage_collected_again_after_it(tmp_path: Path) -> None:
    spared: list[int] = []
    async with serving_completions(perfect) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, preflight=False, gaps=NO_GAPS)
        await replay_async([make_trace(turns=3)], options, watch=lambda progress: spared.append(gc.get_freeze_count()))

    assert min(spared) > 1000 > gc.get_freeze_count()


@in_event_loop
async def test_without_ids_a_note_says_that_outputs_are_not_taken_up(tmp_path: Path) -> None:
    async def wordy(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        events = [event({"choices": [{"text": "x", "finish_reason": None}]})] * body["max_tokens"]
        return await stream(request, [*events, DONE])

    said: list[str] = []
    async with serving_completions(wordy, cards=[{"id": "m"}]) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, preflight=False, gaps=NO_GAPS)
        summary = await replay_async([make_trace(turns=3)], options, say=said.append)

    assert summary.without_ids == 3
    assert [text for text in said if "no output ids" in text] == [f"note: {summary.notes[1]}"]
    assert "does not tell its vocabulary" in summary.notes[0]


@in_event_loop
async def test_alone_on_the_simulator_measured_is_the_realised_optimum_call_by_call(tmp_path: Path) -> None:
    trace = make_trace(turns=4, isl=300, osl=30, new=100, system=150)
    async with running_simulator(SimulatorOptions(speed=0)) as url:
        first = await replayed([trace], url, tmp_path / "1")
        again = await replayed([trace], url, tmp_path / "2")

    assert first.setup.simulated
    assert all(line["simulated"] for line in lines(tmp_path / "1"))
    assert (first.setup.profile, first.setup.block_size) == ("vllm", 16)
    assert all(cached == optimum for cached, optimum in by_call(first))
    assert by_call(again) == by_call(first)
    assert [optimum for _, optimum in by_call(first)] == planned_hits(
        trace, Assumptions(profile=PROFILES["vllm"], preload=False)
    )


@in_event_loop
async def test_many_sessions_on_the_simulator_measure_at_most_the_realised_optimum(tmp_path: Path) -> None:
    trace = make_trace(turns=3, isl=300, osl=10, new=100, system=150)
    async with running_simulator(SimulatorOptions(speed=0)) as url:
        summary = await replayed([trace], url, tmp_path, sessions=16, concurrency=4)

    assert summary.is_complete
    assert summary.window is not None
    assert all(cached is not None and cached <= optimum for cached, optimum in by_call(summary))
    assert summary.cache.hit_rate is not None
    assert summary.cache.hit_rate > 0.5


@in_event_loop
async def test_the_simulators_counters_tell_the_hit_rate_of_the_run_alone(tmp_path: Path) -> None:
    trace = make_trace(turns=3, isl=300, osl=10, new=100, system=150)
    async with running_simulator(SimulatorOptions(speed=0)) as url:
        await replayed([trace], url, tmp_path / "1", preflight=True)
        summary = await replayed([trace], url, tmp_path / "2", preflight=True, sessions=3)

    assert summary.counted is not None
    assert summary.counted.prompt == summary.cache.prompt_tokens
    assert summary.counted.cached == summary.cache.cached_tokens
    assert summary.counted.hit_rate == summary.cache.hit_rate


@in_event_loop
async def test_the_server_is_tried_before_the_run_and_not_counted(tmp_path: Path) -> None:
    async with serving_completions(perfect) as server:
        summary = await replayed([make_trace(turns=2, isl=100)], server.url, tmp_path, preflight=True)

    tried, first, _ = server.bodies
    assert (len(tried["prompt"]), tried["max_tokens"]) == (24, 3)
    assert tried["prompt"][0] < min(first["prompt"])
    assert (summary.requests.ok, summary.isl_mismatches) == (2, 0)


@in_event_loop
async def test_what_will_make_numbers_wrong_is_said_before_the_results_go_anywhere(tmp_path: Path) -> None:
    async def short(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, good_answer(body | {"max_tokens": 2}, cached_tokens=None))

    said: list[str] = []
    cards = [{"id": "m", "max_model_len": 150, "meta": {"n_vocab": 32768}}]
    async with serving_completions(short, cards=cards) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, gaps=NO_GAPS)
        await replay_async([make_trace(turns=2, isl=100, osl=20, new=50)], options, say=said.append)

    before = said[: said.index(f"results go to {tmp_path}")]
    assert any("1 calls are longer than the server's context" in text for text in before)
    assert any("3 output tokens were asked for and 2 came" in text for text in before)
    assert any("no cached tokens" in text for text in before)


async def refuse_ids(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"error": {"message": "prompt must be a string"}}, status=400)


@in_event_loop
async def test_refused_ids_are_an_error_before_anything_is_written(tmp_path: Path) -> None:
    async with serving_completions(refuse_ids) as server:
        with pytest.raises(RunFailed, match=r"prompt must be a string\): replay with --api chat"):
            await replayed([make_trace()], server.url, tmp_path / "no", preflight=True, api="completions")

    assert not (tmp_path / "no").exists()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(traces(), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["token", "prompt-only", "vllm"]))
def test_measured_is_never_above_the_realised_optimum(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace, sessions: int, concurrency: int, profile: str
) -> None:
    if not list(trace.calls()):
        return

    @in_event_loop
    async def perform() -> None:
        simulated = SimulatorOptions(speed=0, profile=profile, block_size=2)
        async with running_simulator(simulated) as url:
            folder = tmp_path_factory.mktemp("replay")
            summary = await replayed([trace], url, folder, sessions=sessions, concurrency=concurrency)
        assert summary.is_complete
        assert all(cached is not None and cached <= optimum for cached, optimum in by_call(summary))

    perform()


@in_event_loop
async def test_the_gpus_that_an_exporter_tells_of_are_counted_and_their_energy_is_told(tmp_path: Path) -> None:
    energy_mj = iter(range(10**9, 10**10, 30_000))

    async def exporter(request: web.Request) -> web.StreamResponse:
        lines = [
            f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="{gpu}",UUID="{CANARY}",Hostname="{CANARY}"}} {used}\n'
            for gpu, used in enumerate([next(energy_mj)] * 2)
        ]
        return web.Response(text="".join(lines))

    async with serving_completions(perfect) as server, serving({"/metrics": exporter}) as dcgm:
        summary = await replayed([make_trace(turns=2)], server.url, tmp_path, sessions=2, dcgm=dcgm)

    gpus = summary.gpu_telemetry
    assert gpus is not None
    assert (summary.setup.gpus, summary.setup.gpus_assumed, gpus.gpus) == (2, False, 2)
    assert any("takes the 2 GPUs that the DCGM exporter tells of" in note for note in summary.notes)
    assert gpus.energy_from == "counters"
    assert gpus.energy_j is not None
    assert gpus.energy_j > 0
    assert len((tmp_path / "gpus.jsonl").read_text().splitlines()) >= 4
    assert CANARY not in whole_text(tmp_path)
    assert audit([tmp_path], kinds=RESULT_KINDS).findings.kept == []
