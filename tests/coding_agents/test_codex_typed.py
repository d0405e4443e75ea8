"""What a trace of Codex shows when somebody sits at its terminal."""

from __future__ import annotations

from coding_agents.conftest import Performer

from rotoscope.traces import ParallelEnd, ParallelStart

CODEX = "codex"


def test_a_title_is_beside_the_work_in_a_session_of_its_own(performed: Performer) -> None:
    played = performed(CODEX, "typed")
    (title,) = [call for call in played.trace.calls() if call.aux]
    work = [call for call in played.trace.calls() if not call.aux]
    sessions = [request.headers["session-id"] for request in played.seen if request.is_call]

    assert [call.link for call in work] == [None, "client", "client", "client"]
    assert {call.conversation_id for call in work} == {work[0].conversation_id} != {title.conversation_id}
    assert (title.link, len(set(sessions))) == (None, 2)


def test_the_work_does_not_wait_for_a_title(performed: Performer) -> None:
    events = performed(CODEX, "typed").trace.events

    assert sum(event.num_branches for event in events if isinstance(event, ParallelStart)) <= 1
    assert not any(isinstance(event, ParallelEnd) for event in events)
