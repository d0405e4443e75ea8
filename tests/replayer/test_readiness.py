from __future__ import annotations

import pytest

from rotoscope.replayer.job_path import Path
from rotoscope.replayer.readiness import Readiness, Waits
from rotoscope.replayer.schedule import Schedule, Step
from rotoscope.traces import RunFailed


def call(number: int, *after: int, delivered: tuple[tuple[int, int], ...] = ()) -> Step:
    return Step("call", None, after, delivered, number)


def sleep(*after: int) -> Step:
    return Step("wait", None, after, seconds=1.0)


def readiness(*steps: Step) -> Readiness:
    return Readiness(Waits(Schedule(steps)))


def test_steps_start_when_all_they_wait_for_has_ended() -> None:
    waits = readiness(call(0), call(1), call(2, 0, 1))

    assert waits.first() == [0, 1]
    assert waits.ended(1, path=Path(1.0)) == []
    assert waits.ended(0, path=Path(1.0)) == [2]


def test_a_step_starts_when_so_many_tokens_have_arrived() -> None:
    waits = readiness(call(0), call(1, delivered=((0, 5),)), call(2, delivered=((0, 3),)))

    assert waits.first() == [0]
    assert waits.is_awaited(0)
    assert (waits.awaited_tokens(0), waits.awaited_tokens(1)) == ((3, 5), ())
    assert waits.delivered(0, 2, path=Path(1.0)) == []
    assert waits.delivered(0, 4, path=Path(1.0)) == [2]
    assert waits.delivered(0, 9, path=Path(1.0)) == [1]
    assert not waits.is_awaited(0)


def test_a_call_that_ended_has_delivered_all_it_will() -> None:
    waits = readiness(call(0), call(1, delivered=((0, 5),)))

    assert waits.ended(0, path=Path(1.0)) == [1]
    assert waits.delivered(0, 9, path=Path(1.0)) == []


def test_what_leads_to_no_call_is_not_started() -> None:
    waits = readiness(call(0), sleep(0), call(1, 1), sleep(2))

    assert waits.ended(0, path=Path(1.0)) == [1]
    assert waits.ended(1, path=Path(1.0)) == [2]
    assert waits.ended(2, path=Path(1.0)) == []
    waits.check_all_ended()


def test_a_sleep_at_the_start_that_leads_to_no_call_is_not_started() -> None:
    assert readiness(sleep(), call(0)).first() == [1]


def test_a_schedule_that_cannot_go_on_is_an_error() -> None:
    waits = readiness(call(0), call(1, 0))

    with pytest.raises(RunFailed, match="step 1 waits"):
        waits.check_all_ended()


def test_a_step_is_due_when_the_last_of_what_it_waits_for_was_over() -> None:
    waits = readiness(call(0), call(1), call(2, 0, 1))

    waits.ended(1, path=Path(7.0))  # noticed first, though it was over last
    waits.ended(0, path=Path(5.0))

    assert waits.path_to(2).until_s == 7.0


def test_a_step_is_due_when_the_tokens_that_it_waits_for_came() -> None:
    waits = readiness(call(0), call(1, delivered=((0, 5),)))

    waits.delivered(0, 3, path=Path(2.0))
    waits.delivered(0, 6, path=Path(4.0))
    waits.ended(0, path=Path(9.0))

    assert waits.path_to(1).until_s == 4.0


def test_first_steps_are_due_when_the_session_is() -> None:
    assert Readiness(Waits(Schedule((call(0),))), start_s=3.0).path_to(0).until_s == 3.0


def test_sessions_that_share_their_waits_do_not_count_down_one_anothers() -> None:
    waits = Waits(Schedule((call(0), call(1, 0), call(2, delivered=((0, 2),)))))
    one, other = Readiness(waits), Readiness(waits)

    assert one.delivered(0, 2, path=Path(1.0)) == [2]
    assert one.ended(0, path=Path(2.0)) == [1]
    assert other.delivered(0, 2, path=Path(1.0)) == [2]
    assert other.ended(0, path=Path(2.0)) == [1]
