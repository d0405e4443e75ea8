from __future__ import annotations

from typing import Any

from chat_wire import Wire, assistant, result, system, tool, tool_call, usage, user

from rotoscope.traces import Call, Message, ParallelEnd, ParallelStart, ToolCall, Trace, Wait

START = [system("s" * 400), user("a")]
ASKING = assistant(calls=[tool_call("1", "read"), tool_call("2", "write")])
RESULTS = [result("1", "x"), result("2", "y")]


def told(trace: Trace) -> list[Any]:
    """Return the events but messages, in short; times in seconds."""
    short: list[Any] = []
    for event in trace.events:
        match event:
            case Call():
                short.append((event.branch, event.call))
            case ToolCall():
                short.append((event.branch, event.tool_name, event.call, event.at_ms, event.duration_ms))
            case Wait():
                short.append((event.branch, event.kind, event.at_ms, event.duration_ms))
            case ParallelStart():
                short.append(("start", event.region, event.num_branches))
            case ParallelEnd():
                short.append(("end", event.region))
    return short


def messages(trace: Trace) -> list[tuple[str, int]]:
    return [
        (event.role if isinstance(event, Message) else "call", event.message_index)
        for event in trace.events
        if isinstance(event, Message | Call)
    ]


def test_the_gap_before_results_is_that_of_the_tools() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    wire.call([*grown, *RESULTS], assistant("b"), start=3.5, end=4)
    trace = wire.close()

    assert told(trace) == [
        (None, 0),
        (None, "tool01", 0, 1000.0, 2500.0),
        (None, "tool02", 0, 1000.0, 2500.0),
        (None, 1),
    ]
    assert {e.time_source for e in trace.events if isinstance(e, ToolCall)} == {"gap"}
    assert [e.tool_call_id for e in trace.events if isinstance(e, ToolCall)] == ["t0", "t1"]


def test_only_tools_whose_results_came_back_were_run() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    wire.call([*grown, RESULTS[0]], assistant("b"), start=2, end=3)

    assert (None, "tool02", 0, 1000.0, 1000.0) not in told(wire.close())


def test_the_tool_whose_result_came_back_is_known_by_its_id() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    wire.call([*grown, RESULTS[1]], assistant("b"), start=2, end=3)

    assert told(wire.close()) == [(None, 0), (None, "tool02", 0, 1000.0, 1000.0), (None, 1)]


def test_a_result_that_comes_behind_a_later_answer_is_of_the_tool_that_its_id_names() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    grown = wire.call([*grown, RESULTS[0]], assistant("one is there"), start=2, end=3)
    wire.call([*grown, RESULTS[1]], assistant("b"), start=5, end=6)

    assert told(wire.close())[2:] == [(None, 1), (None, "tool02", 0, 3000.0, 2000.0), (None, 2)]


def test_tools_had_ended_when_their_results_were_sent_first() -> None:
    wire = Wire()
    grown = [*wire.call(START, ASKING, start=0, end=1), *RESULTS]
    wire.refuse(grown, at=2)
    wire.refuse(grown, at=20, status=503)
    wire.call(grown, assistant("b"), start=60, end=61)

    assert told(wire.close())[1:] == [
        (None, "tool01", 0, 1000.0, 1000.0),
        (None, "tool02", 0, 1000.0, 1000.0),
        (None, "think", 2000.0, 58000.0),
        (None, 1),
    ]


def test_an_attempt_before_the_tools_were_asked_for_is_not_of_their_results() -> None:
    wire = Wire()
    wire.refuse([*START, ASKING, *RESULTS], at=0)
    grown = wire.call(START, ASKING, start=1, end=10)
    wire.call([*grown, *RESULTS], assistant("b"), start=12, end=13)

    assert (None, "tool01", 0, 10000.0, 2000.0) in told(wire.close())


def test_of_several_choices_the_one_that_was_taken_asked_for_the_tools() -> None:
    wire = Wire()
    choices = [assistant("b"), assistant(calls=[tool_call("1", "read")]), assistant(calls=[tool_call("2", "write")])]
    wire.answer(wire.ask(START, at=0, n=4), *choices, assistant("c"), at=1)
    wire.call([*START, choices[1], result("1", "x")], assistant("d"), start=3, end=4)

    assert told(wire.close())[4:] == [(None, "tool01", 1, 1000.0, 2000.0), (None, 4)]


def test_a_gap_before_results_that_nothing_is_known_to_have_asked_for_is_a_wait() -> None:
    wire = Wire()
    exchange = wire.ask(START, at=0)
    exchange.response(200, at_s=101.0, content_type="application/json")
    exchange.chunk(b"no JSON", at_s=102.0)
    exchange.end(at_s=102.0)
    wire.call([*START, ASKING, *RESULTS], assistant("c"), start=5, end=6)

    assert told(wire.close()) == [(None, 0), (None, "think", 2000.0, 3000.0), (None, 1)]


def test_tools_whose_calls_and_results_are_sent_back_as_text_were_run() -> None:
    wire = Wire()
    wire.call(START, ASKING, start=0, end=1)
    history = [*START, assistant("Calling tools: read, write"), user("Observation: x, y")]
    grown = wire.call(history, assistant("b"), start=3, end=4)
    wire.call([*grown, user("c")], assistant("d"), start=5, end=6)

    assert told(wire.close()) == [
        (None, 0),
        (None, "tool01", 0, 1000.0, 2000.0),
        (None, "tool02", 0, 1000.0, 2000.0),
        (None, 1),
        (None, "think", 4000.0, 1000.0),
        (None, 2),
    ]


def test_any_other_gap_is_a_wait() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"), start=0, end=1)
    wire.call([*grown, user("c")], assistant("d"), start=3, end=4)

    assert told(wire.close()) == [(None, 0), (None, "think", 1000.0, 2000.0), (None, 1)]


def test_no_gap_is_no_wait() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"), start=0, end=1)
    wire.call([*grown, user("c")], assistant("d"), start=1, end=4)

    assert told(wire.close()) == [(None, 0), (None, 1)]


def test_a_helper_inside_a_tool_gap_takes_its_time_from_it() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    wire.call([START[0], user("help")], assistant("b"), start=3, end=7)
    wire.call([*grown, *RESULTS], assistant("c"), start=8, end=9)

    assert told(wire.close()) == [
        (None, 0),
        (None, "agent", 1000.0, 2000.0),
        ("start", 0, 1),
        ((0, 0), 1),
        ("end", 0),
        (None, "tool01", 0, 7000.0, 1000.0),
        (None, "tool02", 0, 7000.0, 1000.0),
        (None, 2),
    ]


def test_tools_that_are_known_to_begin_agents_have_no_time_of_their_own() -> None:
    wire = Wire()
    messages = wire.call(START, assistant(calls=[tool_call("1", "agent")]), start=0, end=1)
    wire.call([START[0], user("help")], assistant("b"), start=2, end=3)
    asking = assistant(calls=[tool_call("2", "read"), tool_call("3", "agent")])
    messages = wire.call([*messages, result("1", "x")], asking, start=4, end=5)
    wire.call([START[0], user("more help")], assistant("b"), start=6, end=7)
    wire.call([*messages, result("2", "x"), result("3", "y")], assistant("c"), start=8, end=9)

    assert [event for event in told(wire.close()) if event[0] is None][2:] == [
        (None, "think", 3000.0, 1000.0),
        (None, 2),
        (None, "agent", 5000.0, 1000.0),
        (None, "tool02", 2, 7000.0, 1000.0),
        (None, 4),
    ]


def test_a_region_inside_a_tool_gap_takes_all_of_it_where_all_tools_were_agents() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    one = wire.ask([START[0], user("one")], at=3)
    other = wire.ask([START[0], user("other")], at=4)
    wire.answer(one, assistant("b"), at=6)
    wire.answer(other, assistant("c"), at=7)
    wire.call([*grown, *RESULTS], assistant("d"), start=9, end=10)

    assert told(wire.close()) == [
        (None, 0),
        (None, "agent", 1000.0, 2000.0),
        ("start", 0, 2),
        ((0, 0), 1),
        ((0, 1), "agent", 3000.0, 1000.0),
        ((0, 1), 2),
        ("end", 0),
        (None, "think", 7000.0, 2000.0),
        (None, 3),
    ]


def test_the_one_that_forked_its_history_goes_on_when_all_branches_have_ended() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("plan"), start=0, end=1)
    parts = [wire.ask([*grown, user(f"part {x}")], at=2) for x in range(3)]
    for x, part in enumerate(parts):
        wire.answer(part, assistant(f"done {x}"), at=3 + x)
    wire.call([*grown, user("put together")], assistant("e"), start=8, end=9)

    assert told(wire.close())[1:] == [
        (None, "think", 1000.0, 1000.0),
        ("start", 0, 2),
        (None, 1),
        ((0, 0), 2),
        ((0, 1), 3),
        ("end", 0),
        (None, "think", 5000.0, 3000.0),
        (None, 4),
    ]


def test_the_root_may_go_on_inside_a_region() -> None:
    wire = Wire()
    slow = wire.ask(START, at=0)
    helper = wire.ask([START[0], user("one")], at=1)
    wire.answer(slow, assistant("b"), at=2)
    inside = wire.ask([*START, assistant("b"), user("c")], at=3)
    wire.answer(helper, assistant("x"), at=4)
    wire.answer(inside, assistant("d"), at=5)
    wire.call([*START, assistant("b"), user("c"), assistant("d"), user("e")], assistant("f"), start=6, end=7)

    assert told(wire.close()) == [
        ("start", 0, 1),
        (None, 0),
        ((0, 0), "agent", 0.0, 1000.0),
        ((0, 0), 1),
        (None, "think", 2000.0, 1000.0),
        (None, 2),
        ("end", 0),
        (None, "think", 5000.0, 1000.0),
        (None, 3),
    ]


def test_tools_run_beside_a_region_have_their_whole_gap_also_where_that_ends_first() -> None:
    wire = Wire()
    first = wire.ask(START, at=0)
    beside = wire.ask([START[0], user("one")], at=1)
    wire.answer(first, ASKING, at=2)
    wire.answer(beside, assistant("x"), at=4)
    grown = wire.call([*START, ASKING, *RESULTS], assistant("b"), start=6, end=7)
    wire.call([*grown, user("c")], assistant("d"), start=8, end=9)

    assert told(wire.close())[4:] == [
        (None, "tool01", 0, 2000.0, 4000.0),
        (None, "tool02", 0, 2000.0, 4000.0),
        (None, 2),
        ("end", 0),
        (None, "think", 7000.0, 1000.0),
        (None, 3),
    ]


def test_a_region_after_which_nothing_comes_is_not_joined() -> None:
    wire = Wire()
    wire.call(START, assistant("b"), start=0, end=1)
    one, other = wire.ask([START[0], user("one")], at=2), wire.ask([START[0], user("other")], at=2)
    wire.answer(one, assistant("c"), at=3)
    wire.answer(other, assistant("d"), at=3)

    assert not any(isinstance(event, ParallelEnd) for event in wire.close().events)


def test_a_region_is_joined_before_the_next_one_begins() -> None:
    wire = Wire()
    wire.call(START, ASKING, start=0, end=1)
    for at in (2, 5):
        one, other = wire.ask([START[0], user(f"one {at}")], at=at), wire.ask([START[0], user(f"other {at}")], at=at)
        wire.answer(one, assistant("c"), at=at + 1)
        wire.answer(other, assistant("d"), at=at + 2)

    events = told(wire.close())
    assert events[-5:] == [("end", 0), (None, "agent", 4000.0, 1000.0), ("start", 1, 2), ((1, 0), 3), ((1, 1), 4)]


def test_no_time_is_counted_twice_on_any_branch() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, start=0, end=1)
    one = wire.ask([START[0], user("one")], at=3)
    other = wire.ask([START[0], user("other")], at=4)
    wire.answer(one, assistant("b"), at=6)
    wire.answer(other, assistant("c"), at=7)
    wire.call([START[0], user("third")], assistant("x"), start=8, end=8.5)
    wire.call([*grown, *RESULTS], assistant("d"), start=9, end=10)
    trace = wire.close()
    root = [e for e in trace.events if isinstance(e, Call | Wait) and e.branch is None]

    assert sum(e.duration_ms or 0.0 for e in root) + 4500.0 == 10_000.0


def test_messages_enter_once_and_a_call_stands_behind_its_prompt() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(200, 9))
    wire.call([*grown, *RESULTS], assistant("b"), counts=usage(260, 5))

    assert messages(wire.close()) == [("system", 0), ("user", 1), ("call", 2), ("tool", 3), ("tool", 4), ("call", 5)]


def test_a_rewind_starts_over_at_the_message_that_differs() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("b"), counts=usage(200, 9))
    wire.call([*grown, user("c")], assistant("d"), counts=usage(260, 5))
    wire.call([*grown, user("other")], assistant("e"), counts=usage(260, 5))

    assert messages(wire.close())[-2:] == [("user", 3), ("call", 4)]


def test_an_answer_that_the_client_changed_enters_as_a_message() -> None:
    wire = Wire()
    wire.call(START, assistant("b"), counts=usage(200, 9))
    wire.call([*START, assistant("changed"), user("c")], assistant("d"), counts=usage(260, 5))

    assert messages(wire.close())[3:] == [("assistant", 2), ("user", 3), ("call", 4)]


def test_the_system_message_has_its_shared_prefix_and_the_schemas_in_its_size() -> None:
    wire = Wire()
    wire.call(START, assistant("b"), counts=usage(400, 9), tools=[tool("read")])
    trace = wire.close()
    first, second, call = trace.events

    assert isinstance(first, Message)
    assert isinstance(second, Message)
    assert isinstance(call, Call)
    assert (first.system_prompt_id, second.system_prompt_id) == ("s0", None)
    assert first.tokens == trace.shared_prefixes[0].tokens
    assert (first.tokens_source, call.prompt_tokens_source) == ("estimate", None)
    assert first.tokens + second.tokens <= 400


def test_times_begin_at_the_first_request() -> None:
    wire = Wire()
    wire.call(START, assistant("b"), start=7, end=9, counts=usage(400, 9, cached=3))
    call = wire.calls()[0]

    assert (call.at_ms, call.duration_ms, call.ttft_ms, call.cached_tokens) == (0.0, 2000.0, 2000.0, 3)


def test_tools_have_one_pseudonym_each_in_order_of_appearance() -> None:
    wire = Wire()
    grown = wire.call(START, assistant(calls=[tool_call("1", "write")]))
    wire.call([*grown, result("1", "x")], ASKING)

    assert [call.tool_calls for call in wire.calls()] == [("tool01",), ("tool02", "tool01")]


def test_tokens_of_images_and_sounds_are_told_apart() -> None:
    wire = Wire()
    counts = {
        "prompt_tokens": 9,
        "completion_tokens": 1,
        "prompt_tokens_details": {"image_tokens": 3, "audio_tokens": 1},
    }
    wire.call([user("see")], assistant("ok"), counts=counts)
    wire.call([user("see")], assistant("ok"), counts=usage(9, 1))

    assert [call.media_tokens for call in wire.calls()] == [4, None]


def test_a_duplicate_takes_nothing_from_the_time_of_tools() -> None:
    wire = Wire()
    grown = [*wire.call(START, ASKING, start=0, end=1), *RESULTS]
    lost = wire.ask(grown, at=2)
    won = wire.ask(grown, at=2.5)
    lost.cancelled(at_s=103.0)
    wire.answer(won, assistant("b"), at=4)
    wire.call([*grown, assistant("b"), user("c")], assistant("d"), start=5, end=6)

    assert told(wire.close()) == [
        (None, 0),
        ("start", 0, 1),
        ((0, 0), "agent", 1000.0, 1000.0),
        ((0, 0), 1),
        (None, "tool01", 0, 1000.0, 1500.0),
        (None, "tool02", 0, 1000.0, 1500.0),
        (None, 2),
        (None, "think", 4000.0, 1000.0),
        (None, 3),
    ]


def test_an_agent_that_is_not_waited_for_takes_nothing_from_the_time_of_tools() -> None:
    wire = Wire()
    grown = [*wire.call(START, ASKING, start=0, end=1), *RESULTS]
    slow = wire.ask([START[0], user("help")], at=2)
    wire.call(grown, assistant("b"), start=3, end=4)
    wire.answer(slow, assistant("c"), at=5)

    assert told(wire.close())[1:] == [
        ("start", 0, 1),
        ((0, 0), "agent", 1000.0, 1000.0),
        ((0, 0), 1),
        (None, "tool01", 0, 1000.0, 2000.0),
        (None, "tool02", 0, 1000.0, 2000.0),
        (None, 2),
    ]


def test_requests_of_several_calls_are_numbered_by_themselves() -> None:
    wire = Wire()
    for number in range(4):
        wire.answer(wire.ask([user(f"question {number}")], n=1 + number % 2), *[assistant("yes")] * (1 + number % 2))

    assert [call.request for call in wire.calls()] == [None, 0, 0, None, 1, 1]
