"""What a trace of qwen-code shows, which names nobody: sub-agents alike, and calls that look at its work."""

from __future__ import annotations

from coding_agents.conftest import Performer
from coding_agents.family import lines, links_to_others

from rotoscope.traces import ParallelStart

QWEN_CODE = "qwen-code"
INTERRUPTED = 130


def test_its_sub_agents_run_one_after_another_and_are_known_without_ids(performed: Performer) -> None:
    played = performed(QWEN_CODE, "anonymous-twins")
    begun = [event for event in played.trace.events if isinstance(event, ParallelStart)]

    assert [(event.branch, event.num_branches, event.evidence) for event in begun] == [(None, 1, "tools")] * 2
    assert len({line.sender for line in lines(played)}) == 3
    assert links_to_others(lines(played)) == []
    assert {call.link for call in played.trace.calls()} == {None, "prefix"}


def test_a_question_whose_turn_it_is_is_a_side_call(performed: Performer) -> None:
    played = performed(QWEN_CODE, "checked")
    checks = [call for call in played.trace.calls() if call.aux]
    work = [call for call in played.trace.calls() if not call.aux]

    # It is asked of the same model, and answered by a tool of its own.
    assert [(call.link, call.domain, len(call.tool_calls)) for call in checks] == [(None, 0, 1)] * 2
    assert {call.conversation_id for call in work} == {0}
    assert {"rewind", "compaction"}.isdisjoint({call.link for call in work})


def test_an_interrupted_call_is_cancelled_and_the_status_is_passed_on(performed: Performer) -> None:
    played = performed(QWEN_CODE, "interrupted")
    *_, call = played.trace.calls()

    assert call.finish_reason == "cancelled"
    assert call.completion_tokens > 0
    assert played.status == INTERRUPTED
