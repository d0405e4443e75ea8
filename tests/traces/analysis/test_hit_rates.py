from __future__ import annotations

from pathlib import Path

import pytest

from rotoscope.testing import make_trace
from rotoscope.traces.analysis.hit_rates import HIT_RATES, RequestHit, request_hits
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import open_traces

REQUESTS = [
    RequestHit(prompt_tokens=25, hit_tokens=0, block_size=10),
    RequestHit(prompt_tokens=25, hit_tokens=25, block_size=10),
    RequestHit(prompt_tokens=40, hit_tokens=19, block_size=10),
    RequestHit(prompt_tokens=5, hit_tokens=0, block_size=10),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("block", (3 + 1) / (3 + 3 + 4 + 1)),
        ("token", (25 + 10) / 95),
        ("full-block", (2 + 1) / (2 + 2 + 4)),
        ("request-mean block", (0 + 1 + 1 / 4 + 0) / 4),
        ("request-mean token", (0 + 1 + 10 / 40 + 0) / 4),
        ("steady token", 10 / 45),
    ],
)
def test_each_definition_counts_what_it_says(name: str, expected: float) -> None:
    rate = {one.name: one for one in HIT_RATES}[name].of([REQUESTS])

    assert rate == pytest.approx(expected)


def test_each_cache_warms_by_itself() -> None:
    steady = next(rate for rate in HIT_RATES if rate.warmed)

    assert steady.of([REQUESTS[:2], REQUESTS[2:]]) == pytest.approx(25 / 30)


def test_nothing_has_a_rate_of_zero() -> None:
    assert [rate.of([]) for rate in HIT_RATES] == [0] * len(HIT_RATES)


def test_requests_come_in_the_order_of_the_corpus() -> None:
    one = Member(name="a", trace=make_trace(turns=1, isl=100), ranks=(1,))
    other = Member(name="b", trace=make_trace(turns=1, isl=60), ranks=(0,))

    requests = request_hits([one, other], 16, Assumptions(preload=False))

    assert [(hit.prompt_tokens, hit.hit_tokens) for hit in requests] == [(60, 0), (100, 40)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conversation", [0.3664, 0.3736, 0.3819, 0.3843, 0.4094, 0.3981]),
        ("synthetic", [0.6396, 0.6512, 0.6594, 0.4232, 0.4315, 0.8627]),
    ],
)
def test_the_published_files_have_their_known_rates_under_each_definition(
    name: str, expected: list[float], data_dir: Path
) -> None:
    members = [one.member for one in open_traces([data_dir / "mooncake" / f"{name}_trace.jsonl"])]

    requests = request_hits(members, 512, Assumptions(preload=False))

    assert [round(rate.of([requests]), 4) for rate in HIT_RATES] == expected
