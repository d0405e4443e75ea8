from __future__ import annotations

from typing import Any

import pytest
from replay_doubles import make_request_result, make_results, make_session_result

from rotoscope.replayer.comparison.pairing import pair
from rotoscope.replayer.reading import Results
from rotoscope.traces import UnusableInput


def run_of(*numbers: int, failed: tuple[int, ...] = (), tokens: int = 100, **session: Any) -> Results:
    sessions = [
        make_session_result(number, **({"status": "failed"} if number in failed else {}) | session)
        for number in numbers
    ]
    requests = [make_request_result(session=number, planned_prompt_tokens=tokens) for number in numbers]
    return make_results(sessions, requests)


def test_sessions_that_all_runs_have_stand_in_the_order_of_the_first() -> None:
    pairing = pair([run_of(5, 2, 9, 1), run_of(1, 2, 5)])

    assert pairing.order == (1, 2, 5)
    assert pairing.left_out == 1


def test_completed_are_those_that_were_so_everywhere() -> None:
    pairing = pair([run_of(0, 1, 2, failed=(1,)), run_of(0, 1, 2, failed=(2,))])

    assert pairing.order == (0, 1, 2)
    assert pairing.completed == {0}


def test_a_number_that_stands_for_other_calls_is_refused() -> None:
    with pytest.raises(UnusableInput, match="session 0 performs other calls"):
        pair([run_of(0, 1), run_of(0, 1, tokens=101)])


def test_of_a_session_that_failed_nothing_is_checked() -> None:
    pairing = pair([run_of(0, failed=(0,)), run_of(0, tokens=101)])

    assert pairing.completed == frozenset()
