"""What a trace of Claude Code shows: its sub-agents, summaries, retries and all that is no call."""

from __future__ import annotations

from itertools import pairwise

from clients.checks import sent_canaries
from coding_agents.agents import PLANTED
from coding_agents.conftest import Performer
from coding_agents.family import anonymous_parents, lines, told_parents

from rotoscope.traces import ParallelEnd, ParallelStart, ToolCall

CLAUDE_CODE = "claude-code"
DEEPEST = 5


def test_a_task_with_tools_is_one_conversation(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "errand")
    calls = list(played.trace.calls())

    assert [(call.link, len(call.tool_calls)) for call in calls] == [(None, 1), ("client", 2), ("client", 0)]
    assert {call.conversation_id for call in calls} == {0}
    assert [event.call for event in played.trace.events if isinstance(event, ToolCall)] == [0, 1, 1]
    assert set(played.names["tools"].values()) == {"Bash"}
    assert {PLANTED[name] for name in ("in_prompt", "in_file", "in_path", "in_commit", "in_key")} <= sent_canaries(
        played
    )


def test_probes_and_requests_that_count_tokens_pass_and_are_no_calls(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "continued")
    paths = [request.path for request in played.seen if not request.is_call]

    assert paths.count("/api/hello") == 3
    assert paths.count("/v1/messages/count_tokens") > 10
    assert len(list(played.trace.calls())) == 4


def test_a_session_that_is_continued_goes_on_in_its_conversation(performed: Performer) -> None:
    *_, before, again = performed(CLAUDE_CODE, "continued").trace.calls()

    assert (again.conversation_id, again.link) == (before.conversation_id, "client")


def test_a_summary_that_was_asked_for_forks_off_before_the_last_answer(performed: Performer) -> None:
    calls = list(performed(CLAUDE_CODE, "compacted").trace.calls())
    asked, summary, behind = calls[2], calls[3], calls[4]

    assert (summary.conversation_id, summary.link) == (1, None)
    assert summary.prefix.of == asked.call
    assert (behind.conversation_id, behind.link) == (0, "answer")
    assert behind.prompt_tokens < summary.prompt_tokens


def test_summaries_that_it_makes_by_itself_are_gone_on_from(performed: Performer) -> None:
    calls = list(performed(CLAUDE_CODE, "compacted-by-itself").trace.calls())
    shrinking = [(before, after) for before, after in pairwise(calls) if after.prompt_tokens < before.prompt_tokens]

    # The first summary leaves the last answer out, which is carried over; the second one holds all.
    assert [after.link for _, after in shrinking] == ["tools", "compaction"]
    assert {after.conversation_id for _, after in shrinking} == {0}


def test_what_was_refused_twice_is_one_call(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "refused")

    assert [request.status for request in played.seen if request.is_call] == [429, 529, 200, 200, 200]
    assert [call.attempts for call in played.trace.calls()] == [3, None, None]


def test_an_interrupted_call_is_cancelled(performed: Performer) -> None:
    *_, call = performed(CLAUDE_CODE, "interrupted").trace.calls()

    assert call.finish_reason == "cancelled"
    assert call.completion_tokens > 0
    assert call.prompt_tokens_source is None


def test_a_parent_does_not_wait_for_agents_in_the_background(performed: Performer) -> None:
    trace = performed(CLAUDE_CODE, "background").trace
    root = [call for call in trace.calls() if call.branch is None]
    children = [call for call in trace.calls() if call.branch is not None]
    begun = [event for event in trace.events if isinstance(event, ParallelStart)]

    assert {event.evidence for event in begun} == {"client"}
    assert sum(event.num_branches for event in begun) == 2
    assert any(call.at_ms < children[-1].at_ms for call in root[1:] if call.at_ms and children[-1].at_ms)
    assert {call.link for call in root[1:]} == {"client"}


def test_agents_with_a_copy_of_the_history_share_it_behind_their_billing_header(performed: Performer) -> None:
    trace = performed(CLAUDE_CODE, "fork").trace
    first, *rest = trace.calls()
    forks = [call for call in rest if call.branch is not None and call.link is None]

    assert len(forks) == 2
    assert forks[0].masked is not None
    assert forks[0].masked.of == first.call
    assert forks[0].masked.tokens > 0.9 * first.prompt_tokens
    assert forks[1].prefix.of == forks[0].call


def test_the_tree_of_62_agents_is_what_the_headers_said(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "tree")
    begun = [event for event in played.trace.events if isinstance(event, ParallelStart)]
    joined = [event.region for event in played.trace.events if isinstance(event, ParallelEnd)]

    # That each call is in its agent's branch and each branch below its parent's is asked of every play.
    assert sum(event.num_branches for event in begun) == 62
    assert {event.evidence for event in begun} == {"client"}
    assert sorted(joined) == sorted(event.region for event in begun)
    assert [call.link for call in played.trace.calls()].count("client") == 94
    assert deepest(told_parents(played)) == DEEPEST


def deepest(parents: dict[str, str]) -> int:
    def depth(agent: str) -> int:
        return 1 + depth(parents[agent]) if agent in parents else 0

    return max(map(depth, parents))


def test_without_headers_the_same_tree_says_that_it_is_not_known(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "anonymous-tree")
    told = told_parents(played)
    found = anonymous_parents(played.trace, lines(played))
    wrong = [agent for agent, parent in told.items() if found[agent].parent != parent]

    print(f"\n{len(told) - len(wrong)} of {len(told)} agents stand below who began them")
    assert len(told) == 62
    assert len(wrong) > 0
    assert {found[agent].evidence for agent in wrong} == {"time"}
    assert "client" not in {found[agent].evidence for agent in told}
    assert {call.link for call in played.trace.calls()} == {None, "tools"}
