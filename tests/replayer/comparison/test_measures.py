from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from noisy_runs import Machine, replay_on

from rotoscope.replayer.comparison.measures import MEASURES
from rotoscope.replayer.comparison.sample import Sample, sample_of
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.reading import read_results
from rotoscope.replayer.summary import Summary

SESSIONS = 16


@pytest.fixture
def run(tmp_path: Path) -> tuple[Summary, Sample]:
    limits = Limits(ttft_s=0.25)
    summary = replay_on(Machine(), tmp_path / "a", noise=1, sessions=SESSIONS, limits=limits, gpus=2)
    everyone = range(SESSIONS)
    return summary, sample_of(read_results(tmp_path / "a"), everyone, completed=frozenset(everyone))


def values(sample: Sample, kept: list[bool] | None = None) -> dict[str, float]:
    chosen = np.array([True] * SESSIONS if kept is None else kept)
    return {one.key: one.value(sample, chosen) for one in MEASURES}


def test_of_all_sessions_they_are_the_numbers_of_the_summary(run: tuple[Summary, Sample]) -> None:
    summary, sample = run
    window, ttft_s, goodput = summary.window, summary.ttft_s, summary.goodput
    assert window is not None
    assert ttft_s is not None
    assert summary.job_latency_s is not None
    assert summary.itl_s is not None
    assert summary.tpot_s is not None
    assert goodput is not None
    assert 0 < goodput.share < 1

    assert values(sample) == pytest.approx(
        {
            "job_latency_s": summary.job_latency_s.mean,
            "jobs_per_h_per_user": window.jobs_per_h_per_user,
            "jobs_per_h_per_gpu": window.jobs_per_h_per_gpu,
            "ttft_p50_s": ttft_s.p50,
            "ttft_p90_s": ttft_s.p90,
            "itl_p50_s": summary.itl_s.p50,
            "tpot_p50_s": summary.tpot_s.p50,
            "tokens_per_s_per_gpu": window.tokens.tokens_per_s_per_gpu,
            "hit_rate": summary.cache.hit_rate,
            "good_share": goodput.share,
        }
    )


def test_of_some_sessions_only_theirs_count(run: tuple[Summary, Sample]) -> None:
    _, sample = run
    last = [False] * 4 + [True] * (SESSIONS - 4)

    some = values(sample, last)

    assert some["job_latency_s"] == pytest.approx(sample.latency_s[4:].mean())
    assert some["ttft_p50_s"] == pytest.approx(np.median(sample.ttft_s[sample.owners >= 4]))
    assert some["hit_rate"] != values(sample)["hit_rate"]
    assert all(np.isfinite(value) for value in some.values())


def test_without_a_session_nothing_is_known(run: tuple[Summary, Sample]) -> None:
    _, sample = run

    assert all(np.isnan(value) for value in values(sample, [False] * SESSIONS).values())


def test_values_are_printed_in_their_unit() -> None:
    told = {one.title: one.told(0.25) for one in MEASURES}

    assert told["TTFT p90, ms"] == "250.00"
    assert told["job latency, s"] == "0.250"
    assert told["hit rate"] == "0.2500"
