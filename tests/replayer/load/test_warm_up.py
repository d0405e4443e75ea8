from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from event_loops import in_event_loop, in_jumping_loop
from replay_doubles import VOCABULARY, VirtualServer

from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.load.warm_up import Times, parse_times, warm_up
from rotoscope.replayer.modelled_run import replay_modelled
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.prompts import PromptPlan, SharedPrompt
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import NO_GAPS
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.summary import Summary
from rotoscope.testing import make_trace
from rotoscope.traces import UnusableInput


def prompts_of(*, system: int = 40) -> list[SharedPrompt]:
    trace = make_trace(system=system)
    return PromptPlan([trace], seed=1, salt="salt", sessions=2, vocabulary=VOCABULARY).shared_prompts()


@pytest.mark.parametrize(("text", "times"), [("auto", "auto"), ("1", 1), ("10000", 10_000)])
def test_a_number_of_times_is_read(text: str, times: Times) -> None:
    assert parse_times(text) == times


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "10001", "Auto", "two", "²"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="auto or 1 to 10,000 times"):
        parse_times(text)


@in_jumping_loop
async def test_a_prefix_is_sent_to_all_replicas_at_once_with_an_answer_of_a_token() -> None:
    server, notes = VirtualServer(), Notes(lambda text: None)

    warmed = await warm_up(prompts_of(), server, times=3, output_tokens=1, notes=notes)

    told = warmed.told
    assert (told.prefixes, told.tokens, told.times, told.failed) == (1, 40, 3, 0)
    assert server.most_in_flight == 3
    assert {len(json.loads(prompt)) for prompt in server.prompts} == {40}
    assert [(one.sent_s, one.first_token_s, one.counted_tokens) for one in warmed.preloaded] == [(0.0, 1.0, 40)] * 3
    assert notes.kept == ()


@in_jumping_loop
async def test_one_that_fails_is_counted_and_was_sent_unless_nobody_listened() -> None:
    server = VirtualServer(fails={0: (0, FailureKind.REFUSED), 1: (0, FailureKind.SERVER_ERROR)})
    notes = Notes(lambda text: None)

    warmed = await warm_up(prompts_of(), server, times=2, output_tokens=1, notes=notes)

    assert warmed.told.failed == 2
    assert [one.sent_s for one in warmed.preloaded] == [None, 0.0]
    assert notes.kept == ("2 of 2 requests that preload shared prefixes failed: the cache may lack them",)


@in_jumping_loop
async def test_where_nothing_is_shared_that_is_said() -> None:
    notes = Notes(lambda text: None)

    warmed = await warm_up(prompts_of(system=0), server := VirtualServer(), times=2, output_tokens=1, notes=notes)

    assert (warmed.told.prefixes, warmed.told.tokens, server.prompts) == (0, 0, [])
    assert notes.kept == ("nothing is preloaded: no call begins with a shared prefix of kind system",)


async def replayed(folder: Path, simulator: SimulatorOptions, **options: Any) -> Summary:
    """Replay sessions of one call on a simulator, each of which begins with a system prompt of 320 tokens."""
    given: dict[str, Any] = {"gaps": NO_GAPS, "folder": folder, "preflight": False, "sessions": 4} | options
    async with running_simulator(simulator) as url:
        return await replay_async([make_trace(isl=400, system=320)], ReplayOptions(url=url, **given))


def hits(summary: Summary) -> tuple[list[int | None], list[int]]:
    """Return cached and optimal tokens of the sessions, in order."""
    pairs = zip(summary.request_results, summary.optimal_tokens, strict=True)
    ordered = sorted(pairs, key=lambda pair: pair[0].session)
    return [one.cached_tokens for one, _ in ordered], [optimum for _, optimum in ordered]


@pytest.mark.parametrize("api", ["completions", "generate", "chat", "responses", "messages"])
@in_event_loop
async def test_the_first_session_finds_what_was_preloaded_and_the_optimum_knows(tmp_path: Path, api: str) -> None:
    simulator = SimulatorOptions(speed=0)
    cold = await replayed(tmp_path / "cold", simulator, api=api)
    warm = await replayed(tmp_path / "warm", simulator, api=api, warm_up="auto")

    assert (cold.warm_up, cold.requests.ok, warm.requests.ok) == (None, 4, 4)
    assert warm.warm_up is not None
    assert (warm.warm_up.tokens, warm.warm_up.times) == (320, 1)
    assert hits(warm)[0] == hits(warm)[1] == [320] * 4
    assert hits(cold)[0] == hits(cold)[1]
    assert hits(cold)[0][1:] == [320] * 3
    assert hits(cold)[1][0] < 16
    assert warm.counted is not None
    assert warm.counted.prompt == warm.cache.prompt_tokens


@pytest.mark.parametrize("router", ["round-robin", "kv"])
def test_each_replica_has_what_was_preloaded(tmp_path: Path, router: str) -> None:
    """In modelled time, in which four sessions that start at once are dealt to four engines."""
    options = ReplayOptions(gaps=NO_GAPS, folder=tmp_path, sessions=4, concurrency=4, warm_up="auto")
    warm = replay_modelled(
        [make_trace(isl=400, system=320)], options, SimulatorOptions(replicas=4, router=router), say=lambda text: None
    )

    assert warm.warm_up is not None
    assert warm.warm_up.times == 4
    assert hits(warm)[0] == hits(warm)[1] == [320] * 4


@in_event_loop
async def test_on_the_simulator_too_few_times_leave_replicas_cold(tmp_path: Path) -> None:
    simulator = SimulatorOptions(speed=0, replicas=4, router="round-robin")
    warm = await replayed(tmp_path / "warm", simulator, warm_up=2, concurrency=1)

    assert sorted(hits(warm)[0], key=lambda cached: cached or 0) == [0, 0, 320, 320]
    assert hits(warm)[1] == [320] * 4
