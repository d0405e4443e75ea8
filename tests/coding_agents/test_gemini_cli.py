"""What a trace of Gemini CLI shows, which names nobody: sub-agents alike, and calls that look at its work."""

from __future__ import annotations

from coding_agents.conftest import Performer
from coding_agents.family import lines, links_to_others

from rotoscope.traces import ParallelEnd, ParallelStart
from rotoscope.traces.model import Call, Trace

GEMINI_CLI = "gemini-cli"


def begun(trace: Trace) -> list[ParallelStart]:
    return [event for event in trace.events if isinstance(event, ParallelStart)]


def small(trace: Trace) -> list[Call]:
    """Return the calls of other models than the agent's."""
    return [call for call in trace.calls() if call.domain != 0]


def test_four_agents_alike_run_at_once_and_stand_below_who_waited_for_them(performed: Performer) -> None:
    played = performed(GEMINI_CLI, "anonymous-four")

    assert sum(event.num_branches for event in begun(played.trace)) == 4
    assert {(event.branch, event.evidence) for event in begun(played.trace)} == {(None, "tools")}
    assert len({line.sender for line in lines(played)}) == 5


def test_which_of_four_alike_goes_on_is_not_known_without_ids(performed: Performer) -> None:
    played = performed(GEMINI_CLI, "anonymous-four")
    second = [call for call in played.trace.calls() if call.link and call.branch is not None][:4]
    wrong = links_to_others(lines(played))

    # That each wrong one says so is asked of every play.
    print(f"\n{len(wrong)} of {len(list(played.trace.calls()))} calls go on from another agent's")
    assert {call.link for call in second} <= {"prefix", "again"}
    assert all(call.rivals or call.link == "again" for call in second)


def test_ids_of_tools_tell_sub_agents_apart(performed: Performer) -> None:
    played = performed(GEMINI_CLI, "twins")

    assert {call.link for call in played.trace.calls()} == {None, "tools"}
    assert links_to_others(lines(played)) == []


def test_questions_about_its_work_are_side_calls(performed: Performer) -> None:
    trace = performed(GEMINI_CLI, "checked").trace
    _, *looks = small(trace)

    # Whether it is a loop, and twice whose turn it is.
    assert [(call.aux, call.link) for call in looks] == [(True, None)] * 3
    assert {call.conversation_id for call in trace.calls() if call.domain == 0} == {0}
    assert {"rewind", "compaction"}.isdisjoint({call.link for call in trace.calls()})


def test_what_a_command_said_is_summed_up_while_it_is_waited_for(performed: Performer) -> None:
    trace = performed(GEMINI_CLI, "checked").trace
    summary = small(trace)[0]
    (region,) = [event for event in begun(trace) if event.evidence == "tools"]

    assert (summary.aux, summary.link, summary.branch) == (False, None, (region.region, 0))
    assert region.region in [event.region for event in trace.events if isinstance(event, ParallelEnd)]


def test_an_interrupted_call_is_cancelled_and_it_ends_as_if_all_was_well(performed: Performer) -> None:
    played = performed(GEMINI_CLI, "interrupted")
    *_, call = played.trace.calls()

    assert call.finish_reason == "cancelled"
    assert call.completion_tokens > 0
    assert played.status == 0
