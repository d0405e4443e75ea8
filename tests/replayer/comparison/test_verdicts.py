from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from noisy_runs import TRACES, Machine, replay_on

from rotoscope.replayer.comparison.verdicts import Compared, Comparison, compare
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.results import SUMMARY_FILE
from rotoscope.traces import UnusableInput

MACHINE = Machine()
PAIRS = 40

Replay = Callable[..., Path]


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """Return a function that replays on a machine and returns the folder of the results."""

    def run(name: str, machine: Machine = MACHINE, *, noise: int = 0, **options: Any) -> Path:
        replay_on(machine, tmp_path / name, noise=noise, **options)
        return tmp_path / name

    return run


def numbers_of(comparison: Comparison) -> dict[str, Compared]:
    (point,) = comparison.points
    return {one.measure: one for one in point.numbers}


def has_verdict(comparison: Comparison) -> bool:
    return any(one.verdict != "no difference seen" for one in numbers_of(comparison).values())


def test_a_run_compared_with_itself_is_the_same(replay: Replay) -> None:
    run = replay("a")

    comparison = compare(run, run)

    assert comparison.exit_code == 0
    assert comparison.points[0].sessions == 48
    for one in numbers_of(comparison).values():
        assert (one.a, one.change, one.low, one.high, one.verdict) == (one.b, 0.0, 0.0, 0.0, "no difference seen")


def test_40_comparisons_of_a_system_with_itself_give_at_most_2_verdicts_at_99_percent(replay: Replay) -> None:
    verdicts = 0
    for pair in range(PAIRS):
        a, b = (replay(f"{pair}-{side}", noise=2 * pair + side) for side in (0, 1))
        verdicts += has_verdict(compare(a, b, confidence_percent=99))

    assert verdicts <= 2


def test_a_slower_server_is_worse_and_a_faster_one_better_in_every_number_that_parts(replay: Replay) -> None:
    steady = Machine(spell_share=0.02, request_share=0.1)
    fast, slow = (
        replay(f"{slowness}", replace(steady, slowness=slowness), noise=int(10 * slowness), sessions=96)
        for slowness in (1.0, 1.1)
    )

    worse, better = (numbers_of(compare(*pair)) for pair in ((fast, slow), (slow, fast)))

    assert worse["job_latency_s"].verdict == "worse"
    assert 0 < worse["job_latency_s"].low < 8 < worse["job_latency_s"].high  # type: ignore[operator]
    assert {one.verdict for one in worse.values()} == {"worse", "no difference seen"}
    assert {one.verdict for one in better.values()} == {"better", "no difference seen"}
    assert {name for name, one in worse.items() if one.verdict == "worse"} > {"jobs_per_h_per_user", "itl_p50_s"}
    assert worse["hit_rate"].verdict == "no difference seen"
    assert worse["jobs_per_h_per_gpu"].change < 0


def test_what_changes_from_run_to_run_takes_repeats(replay: Replay, tmp_path: Path) -> None:
    """Within a run nothing tells that the next one will be faster or slower by a few percent."""
    moody = Machine(run_share=0.1, spell_share=0.01, request_share=0.05)
    for number in range(3):
        for side in "ab":
            replay(f"{side}/replay-{number}", moody, noise=10 * number + (side == "b"))

    alone = [has_verdict(compare(tmp_path / f"a/replay-{n}", tmp_path / f"b/replay-{n}")) for n in range(3)]
    together = compare(tmp_path / "a", tmp_path / "b")

    assert any(alone)
    assert not has_verdict(together)
    assert (together.points[0].runs_of_a, together.points[0].runs_of_b) == (3, 3)


def test_runs_that_ended_by_time_are_compared_over_the_sessions_that_all_have(replay: Replay) -> None:
    many, few = (
        replay("a", duration_s=40.0, sessions=500),
        replay("b", replace(MACHINE, slowness=1.5), duration_s=40.0, sessions=500),
    )

    (point,) = compare(many, few).points

    assert point.sessions_left_out > 5
    assert point.sessions + point.sessions_left_out == len((many / "sessions.jsonl").read_bytes().splitlines())


def test_each_load_is_a_comparison_of_its_own_and_all_of_them_keep_the_confidence(
    replay: Replay, tmp_path: Path
) -> None:
    for side in "ab":
        for concurrency in (1, 4):
            replay(f"{side}/{concurrency}", noise=ord(side), concurrency=concurrency, sessions=16)

    comparison = compare(tmp_path / "a", tmp_path / "b")

    assert [point.load for point in comparison.points] == ["concurrency 1", "concurrency 4"]
    assert comparison.points[0].confidence ** 2 == pytest.approx(0.95)


def test_a_run_that_is_not_valid_gets_no_verdict(replay: Replay) -> None:
    good, bad = replay("a"), replay("b", replace(MACHINE, slowness=2.0))
    summary = orjson.loads((bad / SUMMARY_FILE).read_bytes())
    (bad / SUMMARY_FILE).write_bytes(orjson.dumps(summary | {"interrupted": True}))

    comparison = compare(good, bad)

    assert comparison.exit_code == 3
    assert comparison.invalid == ("B, b: interrupted",)
    assert {one.verdict for one in numbers_of(comparison).values()} == {"not known"}
    assert numbers_of(comparison)["job_latency_s"].change > 50


def test_too_few_sessions_get_no_verdict(replay: Replay) -> None:
    a, b = replay("a", sessions=6), replay("b", sessions=6, noise=1)

    assert {one.verdict for one in numbers_of(compare(a, b)).values()} == {"not known"}
    assert not compare(a, b).is_told


def test_good_answers_within_other_limits_are_not_compared(replay: Replay) -> None:
    one, same, other = (
        replay(name, limits=Limits(ttft_s=limit_s)) for name, limit_s in (("a", 0.1), ("b", 0.1), ("c", 9.0))
    )

    assert "good_share" in numbers_of(compare(one, same))
    assert "good_share" not in numbers_of(compare(one, other))
    assert compare(one, same).is_told


def test_an_open_loop_is_compared_without_rates(replay: Replay) -> None:
    options = {"concurrency": None, "rate_per_h": 1800.0, "ramp_s": 0.0, "seed": 5}
    a, b = replay("a", **options), replay("b", replace(MACHINE, slowness=3.0), noise=1, **options)

    numbers = numbers_of(compare(a, b))

    assert "jobs_per_h_per_user" not in numbers
    assert numbers["job_latency_s"].verdict == "worse"


def test_other_traces_are_refused(replay: Replay) -> None:
    a, b = replay("a"), replay("b", traces=[*reversed(TRACES)])

    with pytest.raises(UnusableInput, match="not the same load: corpus_sha256"):
        compare(a, b)


def test_what_is_worse_by_so_much_is_told(replay: Replay) -> None:
    a, b = replay("a"), replay("b", replace(MACHINE, slowness=2.0))

    comparison = compare(a, b)

    assert "job_latency_s" in {one.measure for one in comparison.worse(0)}
    assert "itl_p50_s" in {one.measure for one in comparison.worse(80)}
    assert not [*comparison.worse(300)]
    assert not [*compare(b, a).worse(0)]


def test_all_of_it_can_be_written_as_json(replay: Replay) -> None:
    a, b = replay("a"), replay("b", noise=1)

    told = orjson.loads(orjson.dumps(compare(a, b).as_dict()))

    assert told["points"][0]["numbers"][0]["measure"] == "job_latency_s"
    assert {part["part"] for part in told["points"][0]["job_parts"]} == {"queue_prefill_s", "decode_s", "waiting_s"}
    assert sorted(one["trace"] for one in told["points"][0]["traces"]) == [0, 1]
