"""What a trace of Codex shows: its threads, summaries, retries, and nothing of its metadata."""

from __future__ import annotations

from clients.checks import sent_canaries
from coding_agents.agents import PLANTED
from coding_agents.conftest import Performer
from coding_agents.family import anonymous_parents, lines, told_parents

from rotoscope.traces import ParallelStart, ToolCall

CODEX = "codex"


def test_a_task_with_tools_is_one_conversation(performed: Performer) -> None:
    played = performed(CODEX, "errand")
    calls = list(played.trace.calls())

    assert [(call.link, len(call.tool_calls)) for call in calls] == [(None, 1), ("client", 2), ("client", 0)]
    assert {call.conversation_id for call in calls} == {0}
    assert [event.call for event in played.trace.events if isinstance(event, ToolCall)] == [0, 1, 1]
    assert set(played.names["tools"].values()) == {"exec_command"}


def test_its_metadata_names_path_remote_and_commit(performed: Performer) -> None:
    played = performed(CODEX, "errand")
    told = [value for name, value in played.seen[0].headers.items() if name.lower() == "x-codex-turn-metadata"]

    # That none of it is in any byte written is asked of every play.
    assert "associated_remote_urls" in told[0]
    assert set(PLANTED.values()) - {PLANTED["in_text"], PLANTED["in_error"]} <= sent_canaries(played)


def test_a_session_that_is_resumed_goes_on_in_its_conversation(performed: Performer) -> None:
    *_, before, again = performed(CODEX, "continued").trace.calls()

    assert (again.conversation_id, again.link) == (before.conversation_id, "client")


def test_a_session_that_is_forked_begins_with_what_it_was_forked_from(performed: Performer) -> None:
    *_, before, again = performed(CODEX, "forked-session").trace.calls()

    assert again.conversation_id != before.conversation_id
    assert again.prefix.of == before.call
    assert again.prefix.tokens > before.prompt_tokens


def test_a_summary_that_it_makes_by_itself_is_gone_on_from(performed: Performer) -> None:
    calls = list(performed(CODEX, "compacted-by-itself").trace.calls())
    at = next(number for number, call in enumerate(calls) if call.link == "compaction")
    summary, behind = calls[at - 1], calls[at]

    assert {call.conversation_id for call in calls} == {0}
    assert (summary.link, summary.tool_calls) == ("client", ())
    assert behind.prompt_tokens < calls[at - 2].prompt_tokens
    assert [call.link for call in calls].count("compaction") == 1


def test_what_was_refused_twice_is_one_call(performed: Performer) -> None:
    played = performed(CODEX, "refused")

    assert [request.status for request in played.seen if request.is_call] == [500, 503, 200, 200, 200]
    assert [call.attempts for call in played.trace.calls()] == [3, None, None]


def test_what_is_sent_again_behind_a_broken_answer_goes_on_from_it(performed: Performer) -> None:
    played = performed(CODEX, "broken")
    calls = list(played.trace.calls())

    # The first answer broke before it said anything; the others were half there: the server had worked for them.
    assert len([request for request in played.seen if request.is_call]) == 6
    assert [call.attempts for call in calls] == [2, None, None, None, None]
    assert [call.link for call in calls] == [None, "client", "again", "client", "again"]
    assert [call.finish_reason for call in calls] == ["tool_calls", "error", "tool_calls", "error", "stop"]
    assert {call.rivals for call in calls} == {None}
    assert calls[2].prefix.of == calls[1].call
    assert calls[2].prefix.tokens == calls[2].prompt_tokens


def test_it_sends_the_whole_list_in_requests_of_their_own(performed: Performer) -> None:
    played = performed(CODEX, "errand")

    assert {request.path for request in played.seen} == {"/v1/responses"}
    assert not any(b"previous_response_id" in request.body for request in played.seen)
    assert not any("upgrade" in map(str.lower, request.headers) for request in played.seen)


def test_an_interrupted_call_is_cancelled_and_its_prompt_an_estimate(performed: Performer) -> None:
    *_, call = performed(CODEX, "interrupted").trace.calls()

    assert call.finish_reason == "cancelled"
    assert call.completion_tokens > 0
    assert call.prompt_tokens_source not in (None, "usage")
    assert performed(CODEX, "interrupted").status == 1


def test_its_threads_are_branches_below_those_that_spawned_them(performed: Performer) -> None:
    played = performed(CODEX, "tree")
    begun = [event for event in played.trace.events if isinstance(event, ParallelStart)]

    assert sum(event.num_branches for event in begun) == 6
    assert {event.evidence for event in begun} == {"client"}
    assert {"spawn_agent", "wait_agent", "close_agent", "exec_command"} == {
        name.rpartition(".")[2] for name in played.names["tools"].values()
    }


def test_without_headers_who_began_a_thread_is_said_to_be_no_more_than_likely(performed: Performer) -> None:
    played = performed(CODEX, "anonymous-tree")
    told, found = told_parents(played), anonymous_parents(played.trace, lines(played))
    wrong = [agent for agent, parent in told.items() if found[agent].parent != parent]

    # Who spawns a thread does not wait for it, so others may be the only ones that still wait when it has ended.
    print(f"\n{len(told) - len(wrong)} of {len(told)} threads stand below who spawned them")
    assert len(told) == 6
    assert {found[agent].evidence for agent in told} <= {"tools", "time"}
    assert {call.link for call in played.trace.calls()} == {None, "tools"}


def test_a_thread_with_a_copy_of_the_history_is_a_branch_of_its_own(performed: Performer) -> None:
    trace = performed(CODEX, "fork").trace

    assert sum(event.num_branches for event in trace.events if isinstance(event, ParallelStart)) == 2
    assert {call.conversation_id for call in trace.calls()} == {0, 1, 2}


def test_a_review_is_the_thread_of_an_agent_that_makes_no_call(performed: Performer) -> None:
    played = performed(CODEX, "review")

    assert {call.branch for call in played.trace.calls()} == {None}
    assert [call.link for call in played.trace.calls()] == [None, "client", "client"]
