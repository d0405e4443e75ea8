from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from gate_evidence import counted_as, evidence_of
from replay_doubles import make_request_result

from rotoscope.replayer.gates.findable import findable_requests
from rotoscope.replayer.sent import Origin
from rotoscope.replayer.server_metrics.counts import ServerMetrics
from rotoscope.replayer.token_streams import CallName


class Sent(NamedTuple):
    """A call of 160 prompt tokens a number, which takes a second."""

    call: int
    at_s: float
    of: int | None = None
    shared: int = 0
    session: int = 0
    status: str = "ok"


def findable(
    calls: Sequence[Sent], *, capacity_tokens: int | None = 10_000, **fields: Any
) -> dict[tuple[int, int], int]:
    """Return what each request must find, by session and call, with blocks of 16."""
    requests = [
        make_request_result(
            session=one.session,
            call=one.call,
            start_s=one.at_s,
            latency_s=1.0,
            prompt_tokens=160 * (one.call + 1),
            status=one.status,
        )
        for one in calls
    ]
    origins = {
        CallName(one.session, one.call): Origin(
            call=one.of,
            shared=one.shared,
            own_tokens=160 * (one.call + 1) + 3 - one.shared,
            prompt_tokens=160 * (one.call + 1),
        )
        for one in calls
    }
    server = ServerMetrics(family="vllm", capacity_tokens=capacity_tokens, replicas=1, block_size=16)
    evidence = evidence_of(requests, origins=origins, server=server, **fields)
    return {(one.session, one.call): tokens for one, tokens in findable_requests(evidence)}


def test_a_prompt_that_grew_finds_the_one_before() -> None:
    assert findable([Sent(0, 0.0), Sent(1, 2.0, of=0, shared=163)]) == {(0, 1): 160}


def test_generated_tokens_need_not_be_kept() -> None:
    assert findable([Sent(0, 0.0), Sent(1, 2.0, of=0, shared=163)])[0, 1] <= 160


def test_only_whole_blocks_are_found() -> None:
    assert findable([Sent(0, 0.0), Sent(1, 2.0, of=0, shared=95)]) == {(0, 1): 80}


@pytest.mark.parametrize(("at_s", "found"), [(0.9, {}), (1.0, {(0, 1): 160})])
def test_what_is_being_computed_need_not_be_found(at_s: float, found: dict[tuple[int, int], int]) -> None:
    assert findable([Sent(0, 0.0), Sent(1, at_s, of=0, shared=160)]) == found


def test_behind_one_that_still_runs_stands_the_one_that_both_begin_like() -> None:
    calls = [Sent(0, 0.0), Sent(1, 2.0, of=0, shared=160), Sent(2, 2.5, of=1, shared=320)]

    assert findable(calls) == {(0, 1): 160, (0, 2): 160}


def test_what_failed_may_be_there_or_not() -> None:
    assert findable([Sent(0, 0.0, status="failed"), Sent(1, 2.0, of=0, shared=160)]) == {}


def test_what_only_other_sessions_have_sent_may_be_there_or_not() -> None:
    assert findable([Sent(0, 0.0, shared=100), Sent(0, 2.0, shared=100, session=1)]) == {}


GROWN = [Sent(0, 0.0), Sent(1, 2.0, of=0, shared=163)]
"""A session of 163 + 160 tokens."""


@pytest.mark.parametrize(("capacity_tokens", "is_kept"), [(646, True), (644, False)])
def test_a_session_fits_half_of_the_cache(capacity_tokens: int, is_kept: bool) -> None:
    assert bool(findable(GROWN, capacity_tokens=capacity_tokens)) is is_kept


@pytest.mark.parametrize(
    ("other", "is_in_the_way"),
    [(Sent(0, 1.5, session=1), True), (Sent(0, 2.1, session=1), False)],
    ids=["between", "after"],
)
def test_sessions_that_were_there_since_it_began_are_in_the_way(other: Sent, is_in_the_way: bool) -> None:
    found = findable([*GROWN, other], capacity_tokens=646)

    assert bool(found) is not is_in_the_way


def test_sessions_that_ended_before_it_began_are_not_in_the_way() -> None:
    later = [one._replace(at_s=one.at_s + 10, session=1) for one in GROWN]

    assert findable([*GROWN, *later], capacity_tokens=646) == {(0, 1): 160, (1, 1): 160}


def test_shared_prefixes_and_what_others_send_are_in_the_way() -> None:
    told = 160 + 320

    assert findable(GROWN, capacity_tokens=846, shared_tokens=100)
    assert not findable(GROWN, capacity_tokens=844, shared_tokens=100)
    assert findable(GROWN, capacity_tokens=846, counted=counted_as(told + 100.0, 0.0))
    assert not findable(GROWN, capacity_tokens=844, counted=counted_as(told + 100.0, 0.0))


def test_of_a_cache_of_unknown_size_only_prompts_count_of_which_half_must_be_there() -> None:
    calls = [Sent(0, 0.0), Sent(1, 2.0, of=0, shared=160), Sent(2, 4.0, of=0, shared=160)]

    assert findable(calls, capacity_tokens=None) == {(0, 1): 160}


def test_words_that_may_be_misplaced_need_not_be_found() -> None:
    assert findable(GROWN, words=300) == {(0, 1): 144}
    assert findable([Sent(0, 0.0), Sent(1, 2.0, of=0, shared=112)], words=300) == {(0, 1): 96}
