from __future__ import annotations

from typing import Any

import pytest
from gate_evidence import counted_as, evidence_of
from replay_doubles import make_request_result

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.gates.cache import above_optimum, below_optimum, counters
from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.sent import Origin
from rotoscope.replayer.server_metrics.counts import Growth, ServerMetrics
from rotoscope.replayer.token_streams import CallName

SLOTS = ServerMetrics(family="llama.cpp", replicas=1)
ONE_CACHE = ServerMetrics(family="vllm", capacity_tokens=100_000, replicas=1, block_size=16)


def test_a_token_that_nothing_of_the_run_explains_is_too_many() -> None:
    assert above_optimum(evidence_of(optimal=[40])).passed
    gate = above_optimum(evidence_of(optimal=[39]))
    assert (gate.passed, gate.measured) == (False, 0.01)
    assert "1 prompt tokens of 1 requests" in (gate.says or "")


def test_what_one_request_misses_does_not_make_up_for_what_another_has_too_much() -> None:
    requests = [make_request_result(cached_tokens=0), make_request_result(cached_tokens=60)]

    assert above_optimum(evidence_of(requests, optimal=[50, 50])).passed is False


def test_a_failed_request_finds_nothing() -> None:
    requests = [make_request_result(), make_request_result(status="failed", cached_tokens=90)]

    assert above_optimum(evidence_of(requests, optimal=[50, 0])).passed


@pytest.mark.parametrize(("optimum", "passed"), [(39, True), (38, False)])
def test_of_words_a_token_a_request_may_be_found_by_chance(optimum: int, passed: bool) -> None:
    assert above_optimum(evidence_of(optimal=[optimum], words=400)).passed is passed


@pytest.mark.parametrize(("optimum", "passed"), [(40 - 1 - 13, True), (40 - 2 - 13, False)])
def test_where_the_template_is_assumed_its_tokens_may_be_found_beyond_the_optimum(optimum: int, passed: bool) -> None:
    template = ChatTemplate(head=6, turn=4, back=3, tail=4, common=4)
    evidence = evidence_of(optimal=[optimum], words=400, template=template, tokens_from="usage")

    assert above_optimum(evidence).passed is passed


def test_a_token_of_chance_may_fill_a_block() -> None:
    request = make_request_result(cached_tokens=64)

    assert above_optimum(evidence_of([request], optimal=[48], words=400, block_size=16)).passed
    assert above_optimum(evidence_of([request], optimal=[32], words=400, block_size=16)).passed is False


def grown(cached: int | None, **fields: Any) -> Evidence:
    """Return evidence of two calls of a session, the second of which begins with the 1000 tokens of the first."""
    none = None if cached is None else 0
    first = make_request_result(call=0, prompt_tokens=1000, start_s=0.0, latency_s=1.0, cached_tokens=none)
    second = make_request_result(call=1, prompt_tokens=1200, start_s=2.0, latency_s=1.0, cached_tokens=cached)
    origins = {
        CallName(0, 0): Origin(call=None, shared=0, own_tokens=1003, prompt_tokens=1000),
        CallName(0, 1): Origin(call=0, shared=1003, own_tokens=200, prompt_tokens=1200),
    }
    return evidence_of([first, second], origins=origins, **fields)


@pytest.mark.parametrize(("cached", "passed"), [(992, True), (800, True), (784, False), (0, False)])
def test_most_of_what_must_be_in_a_known_cache_is_found(cached: int, passed: bool) -> None:
    gate = below_optimum(grown(cached, server=ONE_CACHE))

    assert gate.passed is passed
    assert gate.measured == pytest.approx(cached / 992, abs=1e-6)


@pytest.mark.parametrize(("cached", "passed"), [(60, True), (40, False), (0, False)])
def test_of_an_unknown_cache_only_one_that_finds_nearly_nothing_is_off(cached: int, passed: bool) -> None:
    assert below_optimum(grown(cached, server=SLOTS)).passed is passed


def test_a_hosted_endpoint_keeps_no_short_prompts() -> None:
    assert below_optimum(grown(0)).passed is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"server": ServerMetrics(family="vllm", capacity_tokens=9000, replicas=2)}, "2 engines serve"),
        ({"concurrency": 2}, "does not tell the size of its one cache"),
        ({"concurrency": 2, "server": SLOTS}, "size of its one cache"),
        ({"server": ServerMetrics(family="dynamo", capacity_tokens=9000)}, "does not tell how many engines serve"),
        ({"server": ServerMetrics(family="vllm", capacity_tokens=2000, replicas=1, block_size=16)}, "no prompt begins"),
    ],
)
def test_where_nothing_must_be_found_nothing_is_checked(fields: dict[str, Any], says: str) -> None:
    gate = below_optimum(grown(0, **fields))

    assert gate.passed is None
    assert says in (gate.says or "")


def test_a_known_cache_is_checked_at_any_concurrency() -> None:
    assert below_optimum(grown(0, server=ONE_CACHE, concurrency=8)).passed is False


def test_a_server_that_tells_no_cached_tokens_cannot_be_checked() -> None:
    evidence = evidence_of([make_request_result(cached_tokens=None)], server=ONE_CACHE)

    assert [check(evidence).passed for check in (above_optimum, below_optimum, counters)] == [None, None, None]


@pytest.mark.parametrize(
    ("prompt", "cached", "fields", "passed"),
    [
        (100.0, 50.0, {}, True),
        (100.0, 51.0, {}, False),
        (100.0, 30.0, {"host_cached": 21.0}, False),
        (110.0, 60.0, {}, True),
        (110.0, 61.0, {}, False),
        (100.0, 51.0, {"unit": "blocks"}, None),
        (100.0, None, {}, None),
    ],
)
def test_where_answers_do_not_tell_counters_show_a_warm_server(
    prompt: float, cached: float | None, fields: dict[str, Any], passed: bool | None
) -> None:
    silent = make_request_result(cached_tokens=None)

    assert above_optimum(evidence_of([silent], counted=counted_as(prompt, cached, **fields))).passed is passed


@pytest.mark.parametrize(
    ("prompt", "cached", "output", "passed"),
    [
        (2200.0, 992.0, 6.0, True),
        (2200.0, 700.0, 6.0, False),
        (0.0, 0.0, 6.0, False),
        (0.0, 0.0, 0.0, None),
        (1100.0, 0.0, 3.0, None),
    ],
    ids=["works", "does not", "is off", "another server", "one of two servers"],
)
def test_where_answers_do_not_tell_counters_show_a_cache_that_is_off(
    prompt: float, cached: float, output: float, passed: bool | None
) -> None:
    counted = counted_as(prompt, cached, output_tokens=output)
    silent = grown(None, server=ONE_CACHE, counted=counted)

    assert below_optimum(silent).passed is passed


@pytest.mark.parametrize(
    ("prompt", "cached", "passed"),
    [
        (100.0, 40.0, True),
        (100.0, 41.0, True),
        (100.0, 42.0, False),
        (100.0, 38.0, False),
        (98.0, 40.0, False),
        (1000.0, 40.0, True),
        (1000.0, 940.0, True),
        (1000.0, 942.0, False),
        (1000.0, 38.0, False),
    ],
)
def test_counters_may_hold_more_than_the_answers_but_not_less(prompt: float, cached: float, passed: bool) -> None:
    gate = counters(evidence_of(counted=counted_as(prompt, cached)))

    assert gate.passed is passed
    assert gate.limit == 0.01


def test_what_was_found_in_other_tiers_counts_too() -> None:
    assert counters(evidence_of(counted=counted_as(100.0, 10.0, host_cached=20.0, external_cached=10.0))).passed


@pytest.mark.parametrize(
    "counted",
    [None, counted_as(100.0, None), counted_as(100.0, 90.0, unit="blocks"), counted_as(100.0, 90.0, restarted=True)],
    ids=["no metrics", "no cached", "blocks", "restarted"],
)
def test_what_cannot_be_compared_is_not(counted: Growth | None) -> None:
    assert counters(evidence_of(counted=counted)).passed is None
