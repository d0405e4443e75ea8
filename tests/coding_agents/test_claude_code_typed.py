"""What a trace of Claude Code shows when somebody sits at its terminal."""

from __future__ import annotations

import orjson
from clients.scripted_server import Seen
from coding_agents.conftest import Performer
from coding_agents.playing import Played

from rotoscope.traces import Call, ToolCall, Wait

CLAUDE_CODE = "claude-code"


def shown(played: Played) -> list[tuple[int, str | None, bool]]:
    """Return conversation, link and whether it is a side call, of each call."""
    return [(call.conversation_id, call.link, call.aux) for call in played.trace.calls()]


def asked_for_text(request: Seen) -> bool:
    return request.is_call and not orjson.loads(request.body).get("tools")


def before_call(played: Played, number: int) -> list[type]:
    """Return what stands between a call and the one before it in the trace, but for messages."""
    events = [event for event in played.trace.events if isinstance(event, Call | ToolCall | Wait)]
    (place,) = [index for index, event in enumerate(events) if isinstance(event, Call) and event.call == number]
    last = max(index for index in range(place) if isinstance(events[index], Call))
    return [type(event) for event in events[last + 1 : place]]


def test_a_title_is_beside_the_work_and_what_is_typed_goes_on(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed")

    assert shown(played) == [(0, None, True), (1, None, False), *[(1, "client", False)] * 4]
    assert [asked_for_text(request) for request in played.seen if request.is_call] == [True, *[False] * 5]


def test_the_time_in_which_somebody_types_is_no_tools(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed")

    assert before_call(played, 3) == [ToolCall, ToolCall]
    assert before_call(played, 4) == [Wait]


def test_it_looks_once_whether_its_server_is_there(performed: Performer) -> None:
    assert [request.path for request in performed(CLAUDE_CODE, "typed").seen if not request.is_call] == ["/api/hello"]


def test_a_typed_summary_is_a_conversation_of_its_own_and_the_next_list_goes_on_by_the_last_answer(
    performed: Performer,
) -> None:
    asked, summary, behind, _ = list(performed(CLAUDE_CODE, "typed-compacted").trace.calls())[3:7]

    assert (summary.conversation_id, summary.link, summary.prefix.of) == (2, None, asked.call)
    assert (behind.conversation_id, behind.link) == (1, "answer")


def test_who_clears_a_session_begins_another_one(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed-compacted")
    *_, title, first = played.trace.calls()
    sessions = [request.headers["X-Claude-Code-Session-Id"] for request in played.seen if request.is_call]

    assert (title.link, title.aux) == (None, True)
    assert (first.link, first.aux, first.conversation_id) == (None, False, 4)
    assert len(set(sessions)) == 2
    assert sessions[-2] == sessions[-1] != sessions[-3]


def test_a_session_that_is_taken_up_again_goes_on(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed-continued")

    assert shown(played) == [(0, None, True), (1, None, False), *[(1, "client", False)] * 5]
    assert before_call(played, 4) == before_call(played, 6) == [Wait]


def test_a_refused_tool_has_the_time_until_something_else_is_said(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed-refused")

    assert shown(played)[-1] == (1, "client", False)
    assert before_call(played, 5) == [ToolCall]


def test_without_a_word_of_it_a_suggestion_looks_like_a_rewind(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed-suggested")
    suggestion, asked = list(played.trace.calls())[4:6]

    assert (suggestion.conversation_id, suggestion.link, suggestion.aux) == (1, "client", False)
    assert (asked.conversation_id, asked.link) == (1, "rewind")


def test_a_suggestion_is_beside_the_work_where_it_says_so(performed: Performer) -> None:
    played = performed(CLAUDE_CODE, "typed-hinted")
    calls = list(played.trace.calls())

    assert [call.call for call in calls if call.aux] == [0, 4, 7]
    assert [call.link for call in calls if not call.aux][:5] == [None, "client", "client", "client", "client"]
    assert calls[5].conversation_id == calls[3].conversation_id
    assert calls[4].prefix.of == 3
