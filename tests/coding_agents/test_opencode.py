"""What a trace of opencode shows: its tree of sub-agents, with the headers that tell it and without."""

from __future__ import annotations

from coding_agents.conftest import Performer
from coding_agents.family import anonymous_parents, lines, told_parents

from rotoscope.traces import ParallelEnd, ParallelStart

OPENCODE = "opencode"
KILLED_BY_SIGINT = 130


def test_the_tree_of_six_agents_is_what_the_headers_said(performed: Performer) -> None:
    played = performed(OPENCODE, "tree")
    begun = [event for event in played.trace.events if isinstance(event, ParallelStart)]
    joined = [event.region for event in played.trace.events if isinstance(event, ParallelEnd)]

    # That each call is in its agent's branch and each branch below its parent's is asked of every play.
    assert len(told_parents(played)) == sum(event.num_branches for event in begun) == 6
    assert {event.evidence for event in begun} == {"client"}
    assert sorted(joined) == sorted(event.region for event in begun)


def test_without_headers_who_began_whom_is_a_guess_where_it_is_wrong(performed: Performer) -> None:
    played = performed(OPENCODE, "anonymous-tree")
    told, found = told_parents(played), anonymous_parents(played.trace, lines(played))
    wrong = [agent for agent, parent in told.items() if found[agent].parent != parent]

    print(f"\n{len(told) - len(wrong)} of {len(told)} agents stand below who began them")
    assert len(told) == 14
    assert {found[agent].evidence for agent in wrong} <= {"time"}
    assert {found[agent].evidence for agent in told} <= {"tools", "time"}
    assert {call.link for call in played.trace.calls()} == {None, "tools"}


def test_an_interrupted_call_is_cancelled_and_the_signal_is_passed_on(performed: Performer) -> None:
    played = performed(OPENCODE, "interrupted")
    *_, call = played.trace.calls()

    assert (call.finish_reason, call.aux) == ("cancelled", False)
    assert call.completion_tokens > 0
    assert played.status == KILLED_BY_SIGINT
