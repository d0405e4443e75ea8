"""Each gate fails on a server, or a client, that misbehaves in just that way, and no other gate does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from event_loops import BriefLoop
from misbehaving_server import Json, Misbehaviour, misbehaving

from rotoscope.replayer.gates.gate import GATES, Gate, GateName
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.result_files import RESULT_KINDS
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.summary import Summary
from rotoscope.testing import make_trace
from rotoscope.traces.audit import audit

T = TypeVar("T")

AGENT = make_trace(turns=3, isl=400, osl=20, new=60, system=100, tool_ms=300.0)
"""0.6 s a session, but for its requests, which take none."""
LOAD: dict[str, Any] = {"sessions": 24, "concurrency": 2, "ramp_s": 0.3}
"""Of 7 s and 24 jobs."""


def run(test: Callable[[], Awaitable[T]], *, late_s: float = 0.0) -> T:
    with asyncio.Runner(loop_factory=lambda: BriefLoop(late_s)) as runner:
        return runner.run(_guarded(test))


async def _guarded(test: Callable[[], Awaitable[T]]) -> T:
    return await test()


async def replayed(url: str, folder: Path, **options: Any) -> Summary:
    return await replay_async([AGENT], ReplayOptions(url=url, folder=folder, **LOAD | options))


def measured(folder: Path, how: Misbehaviour | None = None, *, late_s: float = 0.0, **options: Any) -> Summary:
    """Return the summary of a run behind a proxy, on a simulator that does not wait."""

    async def measure() -> Summary:
        async with (
            running_simulator(SimulatorOptions(speed=0.0)) as server,
            misbehaving(server, how or Misbehaviour()) as url,
        ):
            return await replayed(url, folder, **options)

    return run(measure, late_s=late_s)


def failed(summary: Summary) -> list[GateName]:
    assert summary.validity is not None
    return [gate.name for gate in summary.validity.failed]


def gate_of(summary: Summary, name: GateName) -> Gate:
    assert summary.validity is not None
    return next(gate for gate in summary.validity.gates if gate.name == name)


def assert_only(summary: Summary, name: GateName, says: str) -> None:
    """Check that this gate fails, that all others were checked and passed, and that the exit code says so."""
    assert summary.validity is not None
    assert {gate.name: gate.passed for gate in summary.validity.gates} == {one: one != name for one in GATES}
    assert says in (gate_of(summary, name).says or "")
    assert summary.exit_code == 3


def test_a_server_that_behaves_passes_all_gates(tmp_path: Path) -> None:
    summary = measured(tmp_path)

    assert summary.validity is not None
    assert [(gate.name, gate.passed) for gate in summary.validity.gates] == [(name, True) for name in GATES]
    assert summary.validity.valid
    assert summary.exit_code == 0
    assert audit([tmp_path], kinds=RESULT_KINDS).findings.kept == []


def test_answers_that_are_cut_short_are_noticed(tmp_path: Path) -> None:
    def shorter(body: Json) -> Json:
        return body | {"max_tokens": max(body["max_tokens"] - 3, 1), "min_tokens": 0}

    summary = measured(tmp_path, Misbehaviour(body=shorter))

    assert_only(
        summary, "output-lengths", "72 of 72 answers have another number of tokens than were asked for, 72 fewer"
    )


def test_a_server_that_ends_answers_where_it_likes_is_noticed(tmp_path: Path) -> None:
    def deaf(body: Json) -> Json:
        return {name: value for name, value in body.items() if name not in ("ignore_eos", "min_tokens")}

    async def measure() -> Summary:
        async with (
            running_simulator(SimulatorOptions(speed=0.0)) as server,
            misbehaving(server, Misbehaviour(body=deaf)) as url,
        ):
            long = make_trace(turns=2, isl=400, osl=250, tool_ms=300.0)
            return await replay_async([long], ReplayOptions(url=url, folder=tmp_path, **LOAD))

    assert_only(run(measure), "output-lengths", "does not obey ignore_eos")


def test_prompts_that_are_counted_otherwise_are_noticed(tmp_path: Path) -> None:
    def one_more(usage: Json) -> Json:
        return usage | {"prompt_tokens": usage["prompt_tokens"] + 1}

    summary = measured(tmp_path, Misbehaviour(usage=one_more))

    assert_only(summary, "prompt-lengths", "72 of 72 prompts, 1.0 off on average, 1 at most")


def test_requests_that_fail_are_noticed(tmp_path: Path) -> None:
    summary = measured(tmp_path, Misbehaviour(fails_each=20))

    assert_only(summary, "errors", "3 of 24 sessions failed")


def test_a_client_that_is_slow_is_noticed(tmp_path: Path) -> None:
    summary = measured(tmp_path, late_s=0.05)

    assert_only(summary, "lag", "this client is saturated")


def test_too_few_jobs_are_noticed(tmp_path: Path) -> None:
    summary = measured(tmp_path, sessions=8)

    assert_only(summary, "jobs", "jobs lie in the steady-state window")


def test_a_server_that_is_warm_is_noticed(tmp_path: Path) -> None:
    async def measure() -> Summary:
        async with running_simulator(SimulatorOptions(speed=0.0)) as url:
            first = await replayed(url, tmp_path / "first", salt="same")
            assert failed(first) == []
            return await replayed(url, tmp_path / "second", salt="same")

    assert_only(run(measure), "above-optimum", "the server was not cold, serves others")


def test_a_cache_that_is_off_is_noticed(tmp_path: Path) -> None:
    numbers = count()

    def apart(body: Json) -> Json:
        return body | {"cache_salt": str(next(numbers))}

    summary = measured(tmp_path, Misbehaviour(body=apart))

    assert_only(summary, "below-optimum", "the cache is off or does not work")
    assert gate_of(summary, "below-optimum").measured == 0


def silent(usage: Json) -> Json:
    """Return the usage of a server that does not tell its cached tokens, as vLLM's unless it is asked to."""
    return {name: value for name, value in usage.items() if name != "prompt_tokens_details"}


def test_a_server_that_is_warm_is_noticed_by_its_counters(tmp_path: Path) -> None:
    async def measure() -> list[Summary]:
        async with (
            running_simulator(SimulatorOptions(speed=0.0)) as server,
            misbehaving(server, Misbehaviour(usage=silent)) as url,
        ):
            return [await replayed(url, tmp_path / name, salt="same") for name in ("first", "second")]

    first, second = run(measure)

    assert failed(first) == []
    assert [gate_of(first, name).passed for name in ("above-optimum", "below-optimum", "counters")] == [
        True,
        True,
        None,
    ]
    assert failed(second) == ["above-optimum"]
    assert "by the server's counters" in (gate_of(second, "above-optimum").says or "")


def test_a_cache_that_is_off_is_noticed_by_the_counters(tmp_path: Path) -> None:
    numbers = count()

    def apart(body: Json) -> Json:
        return body | {"cache_salt": str(next(numbers))}

    assert failed(measured(tmp_path, Misbehaviour(body=apart, usage=silent))) == ["below-optimum"]


def test_counters_that_are_not_those_of_the_answers_are_noticed(tmp_path: Path) -> None:
    def half(text: str) -> str:
        return re.sub(
            r"^(vllm:prefix_cache_hits_total\S*) (\d+)$", lambda m: f"{m[1]} {int(m[2]) // 2}", text, flags=re.MULTILINE
        )

    summary = measured(tmp_path, Misbehaviour(metrics=half))

    assert_only(summary, "counters", "several servers answer, or one of the two is wrong")


def test_another_client_of_the_server_fails_no_gate_but_is_noted(tmp_path: Path) -> None:
    async def measure() -> Summary:
        async with running_simulator(SimulatorOptions(speed=0.0)) as url:
            ours, _ = await asyncio.gather(
                replayed(url, tmp_path / "ours"), replayed(url, tmp_path / "theirs", sessions=20)
            )
            return ours

    summary = run(measure)

    assert failed(summary) == []
    assert any("it served others too" in note for note in summary.notes)


def test_a_small_cache_at_high_load_fails_no_gate(tmp_path: Path) -> None:
    async def measure() -> Summary:
        async with running_simulator(SimulatorOptions(speed=0.0, blocks=80)) as url:
            return await replayed(url, tmp_path, concurrency=6, sessions=24)

    summary = run(measure)

    assert summary.cache.cached_tokens is not None
    assert summary.cache.cached_tokens < 0.5 * summary.cache.optimal_tokens
    assert failed(summary) == []
    assert gate_of(summary, "below-optimum").passed is None


def test_a_router_that_scatters_a_session_fails_no_gate(tmp_path: Path) -> None:
    async def measure() -> Summary:
        async with running_simulator(SimulatorOptions(speed=0.0, replicas=3)) as url:
            return await replayed(url, tmp_path, concurrency=1)

    summary = run(measure)

    assert failed(summary) == []
    assert "3 engines serve" in (gate_of(summary, "below-optimum").says or "")


def test_a_frontend_that_scatters_a_session_and_tells_no_number_of_engines_fails_no_gate(tmp_path: Path) -> None:
    """As Dynamo's does; three turns on three engines find nothing of each other."""
    block_size = "dynamo_frontend_model_kv_cache_block_size 16\n"

    async def measure() -> Summary:
        async with (
            running_simulator(SimulatorOptions(speed=0.0, replicas=3)) as server,
            misbehaving(server, Misbehaviour(metrics=lambda text: block_size)) as url,
        ):
            alone = make_trace(turns=3, isl=400, osl=20, new=60, system=0, tool_ms=300.0)
            return await replay_async([alone], ReplayOptions(url=url, folder=tmp_path, sessions=16, concurrency=1))

    summary = run(measure)

    assert summary.cache.cached_tokens == 0
    assert failed(summary) == []
    assert "does not tell how many engines serve" in (gate_of(summary, "below-optimum").says or "")


def test_a_run_without_a_load_is_no_benchmark_and_valid(tmp_path: Path) -> None:
    summary = measured(tmp_path, sessions=2, concurrency=None, ramp_s=0.0)

    assert failed(summary) == []
    assert gate_of(summary, "jobs").passed is None
    assert summary.exit_code == 0


def test_a_gate_that_is_skipped_says_so_and_fails_nothing(tmp_path: Path) -> None:
    summary = measured(tmp_path, sessions=6, skipped_gates=("jobs",))

    assert failed(summary) == []
    assert gate_of(summary, "jobs").says == "skipped, as asked for by --skip-gate"
    assert summary.setup.skipped_gates == ("jobs",)


def test_a_server_that_this_run_has_warmed_itself_passes_all_gates(tmp_path: Path) -> None:
    summary = measured(tmp_path, warm_up="auto")

    assert failed(summary) == []
    assert gate_of(summary, "above-optimum").passed
    assert gate_of(summary, "counters").passed
