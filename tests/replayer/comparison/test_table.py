from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rotoscope.replayer.comparison import table
from rotoscope.replayer.comparison.verdicts import Compared, Comparison, PointComparison
from rotoscope.replayer.comparison.where import JobPart, TraceChange

LATENCY = Compared(
    measure="job_latency_s", a=10.0, b=11.0, scale="ratio", change=10.0, low=7.1, high=13.4, verdict="worse"
)
HIT_RATE = Compared(
    measure="hit_rate",
    a=0.95,
    b=0.94,
    scale="points",
    change=-1.0,
    low=-2.25,
    high=0.25,
    verdict="no difference seen",
)
POINT = PointComparison(
    load="",
    runs_of_a=1,
    runs_of_b=1,
    sessions=48,
    sessions_left_out=0,
    confidence=0.95,
    numbers=(LATENCY, HIT_RATE),
    optimal_hit_rate_of_a=0.97,
    optimal_hit_rate_of_b=0.96,
    job_parts=(JobPart(part="decode_s", a_s=4.0, b_s=5.25),),
    traces=tuple(TraceChange(trace=number, jobs=3, a_s=10.0, b_s=12.5 - number) for number in range(7)),
)
COMPARISON = Comparison(
    confidence_percent=95.0,
    differences=(),
    simulated=False,
    invalid=(),
    runs_left_out_of_a=0,
    runs_left_out_of_b=0,
    points=(POINT,),
)


def said(**fields: Any) -> list[str]:
    return [*table.sentences(replace(COMPARISON, **fields))]


def test_each_number_stands_with_both_sides_and_its_verdict() -> None:
    assert [*table.number_rows(POINT)] == [
        ("job latency, s", "10.000", "11.000", "B is worse: +10.0 % (+7.1 to +13.4 %)"),
        ("hit rate", "0.9500", "0.9400", "no difference seen (-2.2 to +0.2 points)"),
        ("  optimum", "0.9700", "0.9600"),
    ]


def test_without_an_interval_there_is_no_verdict() -> None:
    assert table.verdict(replace(LATENCY, low=None, high=None, verdict="not known")) == "+10.0 %, no verdict"


def test_an_optimum_that_is_not_known_is_left_out() -> None:
    rows = [*table.number_rows(replace(POINT, optimal_hit_rate_of_b=None))]

    assert [row[0] for row in rows] == ["job latency, s", "hit rate"]


def test_parts_of_a_job_and_the_traces_that_changed_most() -> None:
    assert [*table.job_rows(POINT)] == [("decode", "4.000 s", "5.250 s", "+1.250 s")]
    rows = [*table.trace_rows(POINT)]
    assert len(rows) == table.MOST_TRACES
    assert rows[0] == ("trace 1", "3", "10.000 s", "12.500 s", "+25.0 %")
    assert [*table.trace_rows(replace(POINT, traces=POINT.traces[:1]))] == []
    assert [*table.trace_rows(replace(POINT, traces=(replace(POINT.traces[0], b_s=10.0),) * 2))] == []


def test_headings_name_the_load_where_there_are_several() -> None:
    assert table.headings(COMPARISON, POINT)[0] == "compare"
    named = table.headings(COMPARISON, replace(POINT, load="concurrency 4"))
    assert (named[0], named[-1]) == ("compare: concurrency 4", "B against A, at 95 %")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "paired by session, 48 in all runs"),
        ({}, "one run a side: what changes from run to run is not in these intervals; give folders of several runs"),
        ({"invalid": ("B, b: interrupted",)}, "INVALID, no verdict: B, b: interrupted"),
        ({"simulated": True}, "measured on a simulator: its times are modelled, no model was computed"),
        ({"differences": ("gpus 1 in A, 2 in B",)}, "differs: gpus 1 in A, 2 in B"),
        ({"runs_left_out_of_b": 2}, "2 of the runs of B are left out: the other side has none under their load"),
        (
            {"points": (replace(POINT, load="concurrency 4", sessions_left_out=5),)},
            "concurrency 4: 5 more sessions are left out: time was over for them in another run",
        ),
        (
            {"points": (replace(POINT, runs_of_a=3, runs_of_b=2),)},
            "paired by session, 48 in all runs, 3 runs of A and 2 of B",
        ),
    ],
)
def test_what_a_reader_must_know_is_said(fields: dict[str, Any], text: str) -> None:
    assert text in said(**fields)


def test_that_sessions_are_too_few_is_said() -> None:
    unknown = replace(LATENCY, low=None, high=None, verdict="not known")
    few = replace(POINT, load="concurrency 4", numbers=(unknown,))

    assert "concurrency 4: no verdict: so few sessions say nothing of chance" in said(points=(few,))
    assert not [text for text in said(points=(few,), invalid=("B, b: interrupted",)) if "so few" in text]
    assert not [text for text in said() if "so few" in text]


def test_of_repeats_nobody_is_told_to_repeat() -> None:
    assert not [text for text in said(points=(replace(POINT, runs_of_a=3, runs_of_b=3),)) if "give folders" in text]
