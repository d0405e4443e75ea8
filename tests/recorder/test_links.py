from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

import orjson
from chat_wire import PATH, Message, Wire, assistant, delta, result, sse, system, tool, tool_call, user

from rotoscope.recorder.calls import gather
from rotoscope.recorder.links import Link, Linker
from rotoscope.traces.journal import CallOpened

START = [system("s"), user("a")]
SUMMARY = "What happened so far is told here in more than sixty-four characters."


def links(wire: Wire, threads: dict[int, int] | None = None, asides: Container[int] = ()) -> list[Link]:
    """Return the links of a recording; `threads` says who sent which call, and which are beside the work."""
    records = [
        replace(x, thread=threads.get(x.call), thread_source="client", aux=x.call in asides)
        if threads and isinstance(x, CallOpened)
        else x
        for x in wire.written().records
    ]
    return Linker(gather(records)).find()


def told(wire: Wire, threads: dict[int, int] | None = None) -> list[tuple[int, int | None, str | None, int]]:
    return [(x.conversation, x.before, x.evidence, x.rivals) for x in links(wire, threads)]


def grown(wire: Wire, messages: list[Message], *answers: str, at: float = 0.0) -> list[Message]:
    """Let a conversation grow by some answers, one a second."""
    for index, text in enumerate(answers):
        messages = [*wire.call(messages, assistant(text), start=at + index, end=at + index + 0.9), user(f"and {text}?")]
    return messages


def test_a_conversation_grows_by_its_prefixes() -> None:
    wire = Wire()
    grown(wire, START, "b", "c", "d")

    assert told(wire) == [(0, None, None, 0), (0, 0, "prefix", 0), (0, 1, "prefix", 0)]


def test_identical_siblings_are_taken_in_order_and_the_doubt_is_stated() -> None:
    wire = Wire()
    calls = [wire.ask(START, at=0) for _ in range(3)]
    for call in calls:
        wire.answer(call, assistant("b"), at=1)
    for at in (2, 3, 4):
        wire.call([*START, assistant("b"), user(f"c {at}")], assistant("d"), start=at, end=at + 0.5)

    assert [(before, rivals) for _, before, _, rivals in told(wire)[3:]] == [(0, 2), (1, 2), (2, 2)]


def test_identical_siblings_are_told_apart_by_who_sends_them() -> None:
    wire = Wire()
    calls = [wire.ask(START, at=0) for _ in range(2)]
    for call in calls:
        wire.answer(call, assistant("b"), at=1)
    for at in (2, 3):
        wire.call([*START, assistant("b"), user("c")], assistant("d"), start=at, end=at + 0.5)

    assert told(wire, {0: 0, 1: 1, 2: 1, 3: 0})[2:] == [(1, 1, "client", 0), (0, 0, "client", 0)]


def test_two_conversations_of_one_line_are_told_apart_by_their_prefixes() -> None:
    wire = Wire()
    first = grown(wire, START, "b")
    other = grown(wire, [system("t"), user("z")], "c", at=1)
    grown(wire, first, "d", at=2)
    grown(wire, other, "e", at=3)

    assert told(wire, dict.fromkeys(range(4), 0))[2:] == [(0, 0, "prefix", 0), (1, 1, "prefix", 0)]


def test_a_list_that_is_cut_and_not_taken_up_again_was_rewound() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    grown(wire, early, "c", "d", at=1)
    grown(wire, [*early[:-1], user("other")], "e", at=4)

    assert told(wire)[3] == (0, 2, "rewind", 0)


def test_the_first_way_on_from_an_answer_is_in_doubt_when_there_is_another() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    grown(wire, early, "c", at=1)
    grown(wire, [*early[:-1], user("other")], "e", at=4)

    assert told(wire)[1] == (0, 0, "prefix", 1)


def test_a_way_on_from_an_answer_while_another_goes_on_is_a_fork() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    later = grown(wire, early, "c", at=1)
    grown(wire, [*early[:-1], user("other")], "e", at=2)
    grown(wire, later, "d", at=3)

    assert [x[:3] for x in told(wire)[2:]] == [(1, None, None), (0, 1, "prefix")]


def test_of_two_requests_at_once_the_one_that_is_gone_on_from_goes_on() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    first = wire.ask(early, at=1)
    second = wire.ask(early, at=1.5)
    wire.answer(second, assistant("c"), at=2)
    first.cancelled(at_s=102.1)
    grown(wire, [*early, assistant("c"), user("d")], "e", at=3)

    assert [x[:3] for x in told(wire)[1:]] == [(1, None, "duplicate"), (0, 0, "prefix"), (0, 2, "prefix")]


def test_it_is_the_first_when_the_second_is_cancelled() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    first = wire.ask(early, at=1)
    second = wire.ask(early, at=1.5)
    wire.answer(first, assistant("c"), at=2)
    second.cancelled(at_s=102.1)
    grown(wire, [*early, assistant("c"), user("d")], "e", at=3)

    assert [x[:3] for x in told(wire)[1:]] == [(0, 0, "prefix"), (1, None, "duplicate"), (0, 1, "prefix")]


def test_what_was_cancelled_and_is_sent_again_goes_on() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    wire.ask(early, at=1).cancelled(at_s=101.5)
    grown(wire, early, "c", "d", at=2)

    assert [x[:3] for x in told(wire)[1:]] == [(0, 0, "prefix"), (0, 1, "again"), (0, 2, "prefix")]


def test_results_that_are_sent_again_behind_a_broken_answer_go_on() -> None:
    wire = Wire()
    asked = wire.call(START, assistant("b", calls=[tool_call("1")]), start=0, end=1)
    broken = wire.ask([*asked, result("1", "x")], at=2)
    broken.response(200, at_s=102.1, content_type="text/event-stream")
    broken.chunk(sse(delta({"role": "assistant", "content": "half an answer"})), at_s=102.2)
    broken.failed(at_s=102.5)
    grown(wire, [*asked, result("1", "x")], "half an answer, and the rest", "d", at=3)

    assert told(wire)[1:] == [(0, 0, "tools", 0), (0, 1, "again", 0), (0, 2, "prefix", 0)]


def test_an_answer_that_is_made_again_is_a_rewind() -> None:
    wire = Wire()
    early = grown(wire, START, "b")
    wire.call(early, assistant("c"), start=1, end=2)
    wire.call(early, assistant("d"), start=3, end=4)

    assert told(wire)[2] == (0, 1, "again", 0)


def test_a_first_prompt_that_comes_again_when_all_is_over_begins_anew() -> None:
    wire = Wire()
    grown(wire, START, "b", "c")
    grown(wire, START, "d", at=5)

    assert told(wire)[2] == (1, None, None, 0)


def test_a_call_with_other_tools_leaves_the_conversation_to_one_with_the_same() -> None:
    wire = Wire()
    tools = [tool("read")]
    early = [*wire.call(START, assistant("b"), start=0, end=1, tools=tools), user("c")]
    wire.call([*early[:-1], user("a title?")], assistant("T"), start=2, end=3)
    wire.call(early, assistant("d"), start=4, end=5, tools=tools)

    assert [x[:3] for x in told(wire)[1:]] == [(1, None, None), (0, 0, "prefix")]


def test_a_longer_prompt_of_a_call_with_other_tools_leaves_the_conversation_too() -> None:
    wire = Wire()
    tools = [tool("read")]
    early = [*wire.call(START, assistant("b"), start=0, end=1, tools=tools), user("c")]
    wire.call([*early, user("a title?")], assistant("T"), start=2, end=3)
    wire.call(early, assistant("d"), start=4, end=5, tools=tools)

    assert [x[:3] for x in told(wire)[1:]] == [(1, None, None), (0, 0, "prefix")]


def test_a_longer_prompt_that_came_first_is_a_rival() -> None:
    wire = Wire()
    early = [*wire.call(START, assistant("b"), start=0, end=1), user("c")]
    wire.call([*early, user("and more")], assistant("d"), start=2, end=3)
    wire.call(early, assistant("e"), start=4, end=5)

    assert told(wire)[1:] == [(0, 0, "prefix", 1), (0, 1, "rewind", 0)]


def test_a_summary_that_stands_behind_the_same_instructions_goes_on() -> None:
    wire = Wire()
    messages = grown(wire, START, "b", "c")
    wire.call([*messages, user("sum up")], assistant(SUMMARY), start=5, end=6)
    wire.call([START[0], user(f"So far: {SUMMARY}")], assistant("e"), start=7, end=8)

    assert told(wire)[3] == (0, 2, "compaction", 0)


def test_a_summary_goes_on_behind_instructions_that_had_changed_before_it() -> None:
    wire = Wire()
    _, *messages = wire.call(START, assistant(calls=[tool_call("1")]), start=0, end=1)
    messages = grown(wire, [system("t"), *messages, result("1", "x")], "d", at=3)
    wire.call([*messages, user("sum up")], assistant(SUMMARY), start=5, end=6)
    wire.call([system("t"), user(f"So far: {SUMMARY}")], assistant("e"), start=7, end=8)

    assert told(wire)[1:] == [(0, 0, "tools", 0), (0, 1, "prefix", 0), (0, 2, "compaction", 0)]


def test_a_short_message_behind_the_same_instructions_is_another_task() -> None:
    wire = Wire()
    messages = grown(wire, START, "b", "c")
    wire.call([*messages, user("sum up")], assistant(SUMMARY), start=5, end=6)
    wire.call([START[0], user("another task")], assistant("e"), start=7, end=8)

    assert told(wire)[3] == (1, None, None, 0)


def test_behind_work_that_ended_with_results_a_long_message_is_another_task() -> None:
    wire = Wire()
    grown = wire.call(START, assistant(calls=[tool_call("1")]), start=0, end=1)
    wire.call([*grown, result("1", "x")], assistant(SUMMARY), start=2, end=3)
    wire.call([START[0], user(f"Another task. {SUMMARY}")], assistant("e"), start=7, end=8)

    assert told(wire)[2] == (1, None, None, 0)


def test_a_long_message_that_was_there_before_is_no_summary() -> None:
    wire = Wire()
    task = [START[0], user(f"The files: {SUMMARY}"), assistant("Ok."), user("a")]
    messages = grown(wire, task, "b")
    wire.call(messages, assistant(SUMMARY), start=5, end=6)
    wire.call([*task[:-1], user("another question")], assistant("e"), start=7, end=8)

    assert told(wire)[2] == (1, None, None, 0)


def test_a_list_that_begins_with_the_same_examples_is_another_task() -> None:
    wire = Wire()
    shots = [START[0], user("example"), assistant("so")]
    messages = grown(wire, [*shots, user("a")], "b")
    wire.call(messages, assistant(SUMMARY), start=5, end=6)
    wire.call([*shots, user(f"another question. {SUMMARY}")], assistant("e"), start=7, end=8)

    assert told(wire)[2] == (1, None, None, 0)


def test_the_only_conversation_of_a_line_may_shrink_to_half_without_a_summary() -> None:
    wire = Wire()
    grown(wire, START, "b", "c")
    wire.call([START[0], user("short")], assistant("e"), start=7, end=8)

    assert told(wire, dict.fromkeys(range(3), 0))[2] == (0, 1, "compaction", 0)
    assert told(wire)[2] == (1, None, None, 0)


def summed_up(window: int) -> tuple[int, int | None, str | None, int]:
    """Return the link of a list that keeps the task and has a note instead of the rest, by the number that Codex tells."""
    wire, messages = Wire(), START
    for turn, text in enumerate(("b", "c")):
        sent(wire, messages, text, at=turn, window=0)
        messages = [*messages, assistant(text), user(f"and {text}?")]
    sent(wire, [*START, user("A note of what was said."), user("and c?")], "d", at=5, window=window)
    return told(wire)[2]


def sent(wire: Wire, messages: list[Message], answer: str, *, at: float, window: int) -> None:
    headers = {"session-id": "s", "thread-id": "s", "x-codex-window-id": f"s:{window}"}
    body = orjson.dumps({"model": "m", "messages": messages})
    exchange = wire.recorder.request(PATH, body, at_s=100.0 + at, headers=headers)
    wire.answer(exchange, assistant(answer), at=at + 0.9)


def test_a_list_is_a_compaction_where_the_client_says_that_it_summed_up() -> None:
    assert summed_up(1) == (0, 1, "compaction", 0)
    assert summed_up(0) == (0, 1, "rewind", 0)


def summed_up_aside(threads: dict[int, int] | None, **fields: Any) -> list[tuple[int, int | None, str | None, int]]:
    """Let an agent ask for a tool and another call sum up, whose answer begins the agent's next list."""
    asking, tools = assistant(calls=[tool_call("1")]), [tool("read")]
    wire = Wire()
    wire.call(START, asking, start=0, end=1, tools=tools)
    asking_again = assistant(calls=[tool_call("2")])
    wire.call([*START, asking, result("1", "x")], asking_again, start=2, end=3, tools=tools)
    wire.call([system("Sum up."), user("All that was said")], assistant(SUMMARY), start=4, end=5, **fields)
    wire.call([*START[:1], assistant(SUMMARY), user("Go on.")], assistant("b"), start=6, end=7, tools=tools)
    return told(wire, threads)


def test_an_agent_goes_on_with_the_summary_that_another_call_of_its_line_made() -> None:
    assert summed_up_aside(dict.fromkeys(range(4), 0))[2:] == [(1, None, None, 0), (0, 1, "compaction", 0)]


def test_without_the_clients_word_or_from_one_with_tools_it_goes_on_from_what_it_holds() -> None:
    other = [tool("write")]

    assert summed_up_aside(None)[3] == (1, 2, "answer", 0)
    assert summed_up_aside(dict.fromkeys(range(4), 0), tools=other)[3] == (1, 2, "answer", 0)


def test_what_the_client_says_is_beside_its_work_is_neither_gone_on_from_nor_back_from() -> None:
    wire = Wire()
    history = wire.call(START, assistant("b"), start=0, end=1)
    wire.call([*history, user("What may come next?")], assistant("c"), start=1.1, end=1.5)
    wire.call([*history, user("c")], assistant("d"), start=3, end=4)
    one_sender = dict.fromkeys(range(3), 0)

    _, aside, behind = links(wire, one_sender, asides={1})
    assert (aside.conversation, aside.before, aside.forked, aside.is_aside) == (1, None, 0, True)
    assert (behind.before, behind.evidence, behind.rivals) == (0, "client", 0)
    assert links(wire, one_sender)[2].evidence == "rewind"


def test_calls_beside_the_work_go_on_from_one_another() -> None:
    wire = Wire()
    history = wire.call(START, assistant("b"), start=0, end=1)
    asking = [*history, user("Keep what matters.")]
    wire.call(asking, assistant(calls=[tool_call("1")]), start=1.1, end=1.5, tools=[tool("write")])
    wire.call([*asking, assistant(calls=[tool_call("1")]), result("1", "x")], assistant("c"), start=2, end=3)
    found = links(wire, dict.fromkeys(range(3), 0), asides={1, 2})

    assert [(link.conversation, link.before, link.is_aside) for link in found] == [
        (0, None, False),
        (1, None, True),
        (1, 1, True),
    ]


def test_choices_stand_behind_one_another() -> None:
    wire = Wire()
    wire.answer(wire.ask(START, n=2), assistant("b"), assistant("c"))
    wire.call([*START, assistant("b"), user("d")], assistant("e"))

    assert told(wire) == [(0, None, None, 0), (0, 0, None, 0), (0, 1, "prefix", 0)]
