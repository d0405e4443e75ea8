from __future__ import annotations

from typing import Any

import orjson
from chat_wire import PATH, Wire, assistant, delta, result, sse, system, tool_call, user

from rotoscope.recorder.reading import leading_messages
from rotoscope.traces.journal import CallOpened, PartSeen


def opened(wire: Wire) -> list[CallOpened]:
    return [record for record in wire.written().records if isinstance(record, CallOpened)]


def test_leading_messages_are_those_of_the_system_and_of_the_developer() -> None:
    assert leading_messages([system("a"), {"role": "developer", "content": "b"}, user("c"), system("d")]) == 2


def test_tool_results_name_the_call_that_asked_for_them() -> None:
    wire = Wire()
    first = wire.call([user("go")], assistant(calls=[tool_call("a1")]))
    other = wire.call([user("else")], assistant(calls=[tool_call("b1")]))
    wire.call([*first, result("a1", "x")], assistant("done"))
    wire.call([*other, result("b1", "y")], assistant("done"))
    wire.call([user("new"), result("zz", "y")], assistant("done"))

    assert [call.answers for call in opened(wire)] == [None, None, 0, 1, None]


def test_results_in_a_body_that_goes_on_from_another_name_their_call_too() -> None:
    wire = Wire()
    messages = wire.call([user("go")], assistant(calls=[tool_call("a1")]))
    messages = wire.call([*messages, result("a1", "x")], assistant(calls=[tool_call("a2")]))
    wire.call([*messages, result("a2", "x")], assistant("done"))

    assert [call.answers for call in opened(wire)] == [None, 0, 1]


def test_an_answer_behind_results_takes_their_call_away() -> None:
    wire = Wire()
    first = wire.call([user("go")], assistant(calls=[tool_call("a1")]))
    wire.call([*first, result("a1", "x"), assistant("fine"), user("more")], assistant("done"))

    assert opened(wire)[1].answers is None


def heads(wire: Wire, *requests: tuple[str, dict[str, Any]]) -> list[int]:
    for path, body in requests:
        wire.recorder.request(path, orjson.dumps(body), at_s=wire.now_s)
    return [call.head for call in opened(wire)]


def test_the_same_body_on_two_paths_is_read_in_two_dialects() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}],
    }
    wire = Wire()
    heads(wire, (PATH, body), ("/v1/messages", body), (PATH, body))
    chat, messages, again = opened(wire)

    assert [call.dialect for call in (chat, messages, again)] == ["chat", "messages", "chat"]
    assert chat.head == again.head != messages.head


def test_items_that_go_on_from_an_answer_are_read_with_it() -> None:
    items: list[dict[str, Any]] = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "a"}]
    more: dict[str, Any] = {"role": "assistant", "content": "b"}
    whole, grown = Wire(), Wire()
    (at_once,) = heads(whole, ("/v1/responses", {"model": "m", "input": [*items, more]}))
    one = heads(
        grown,
        ("/v1/responses", {"model": "m", "input": items}),
        ("/v1/responses", {"model": "m", "input": [*items, more]}),
    )

    assert len(whole.written().records) == 3
    assert (at_once, one) == (1, [1, 2])
    assert len(grown.written().records) == 5


def test_a_body_that_grows_by_answers_and_results_is_read_as_if_whole() -> None:
    first = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]}
    back = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}, {"type": "text", "text": "on"}],
    }
    whole, grown = Wire(key=bytes(32)), Wire(key=bytes(32))
    heads(whole, ("/v1/messages", {"messages": [*first, use, back], "model": "m"}))
    heads(
        grown,
        ("/v1/messages", {"messages": first, "model": "m"}),
        ("/v1/messages", {"messages": [*first, use, back], "model": "m"}),
    )

    digests = [
        [record.digest for record in wire.written().records if isinstance(record, PartSeen)] for wire in (whole, grown)
    ]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 4


def test_results_that_come_before_a_stream_has_ended_name_their_call_too() -> None:
    wire = Wire()
    exchange = wire.ask([user("go")], stream=True)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    call = delta({"tool_calls": [{"index": 0} | tool_call("a1")]}, finish="tool_calls")
    exchange.chunk(sse(call, "[DONE]"), at_s=wire.now_s)
    wire.ask([user("go"), assistant(calls=[tool_call("a1")]), result("a1", "x")])
    exchange.end(at_s=wire.now_s + 1)

    assert [call.answers for call in opened(wire)] == [None, 0]


def sent_by(*headers: dict[str, str], **fields: Any) -> list[int | None]:
    """Return who sends the requests of a growing conversation, by the headers of each."""
    wire, messages = Wire(), [user("go")]
    for named in headers:
        body = orjson.dumps({"model": "m", "messages": messages} | fields)
        exchange = wire.recorder.request(PATH, body, at_s=wire.now_s, headers=named)
        wire.answer(exchange, assistant("yes"))
        messages = [*messages, assistant("yes"), user("on")]
    return [call.thread for call in opened(wire)]


def test_who_sent_a_body_by_its_headers_is_not_who_sends_one_that_goes_on_from_it_without() -> None:
    assert sent_by({"x-session-id": "A"}, {}, {"x-session-id": "A"}) == [0, None, 0]


def test_who_sends_a_body_by_its_own_word_sends_one_that_goes_on_from_it_too() -> None:
    first, second, third = sent_by({"x-session-id": "A"}, {}, {}, prompt_cache_key="K")

    assert first != second == third
    assert second is not None


def test_results_tell_of_which_tools_they_are_where_those_are_not_the_first() -> None:
    wire = Wire()
    grown = wire.call([user("go")], assistant(calls=[tool_call(name) for name in "abc"]))
    wire.call([*grown, result("c", "x"), result("b", "x")], assistant("d"))
    wire.call([*grown, result("b", "x"), result("a", "x")], assistant("d"))

    assert [call.results for call in opened(wire)] == [(), (1, 2), ()]


def test_tools_whose_ids_are_one_are_not_told_apart() -> None:
    wire = Wire()
    grown = wire.call([user("go")], assistant(calls=[tool_call("a"), tool_call("a")]))
    wire.call([*grown, result("a", "x")], assistant("d"))

    assert [(call.answers, call.results) for call in opened(wire)] == [(None, ()), (0, ())]


def test_the_numbers_of_windows_are_counted_and_not_kept() -> None:
    wire = Wire()
    for number in ("7000", "7000", "7003", "7001", "9000"):
        headers = {"session-id": "s", "thread-id": "s", "x-codex-window-id": f"s:{number}"}
        body = orjson.dumps({"model": "m", "messages": [user(number)]})
        wire.answer(wire.recorder.request(PATH, body, at_s=wire.now_s, headers=headers), assistant("yes"))

    assert [call.window for call in opened(wire)] == [0, 0, 1, 0, 2]


def test_what_is_said_to_be_beside_the_work_is_so_in_bodies_that_grow_too() -> None:
    wire = Wire()
    asked = [user("go")]
    for kind in ("main", "auxiliary", "main"):
        headers = {"x-claude-code-session-id": "s", "x-claude-code-request-class": kind}
        body = orjson.dumps({"model": "m", "messages": asked})
        wire.answer(wire.recorder.request(PATH, body, at_s=wire.now_s, headers=headers), assistant("yes"))
        asked = [*asked, assistant("yes"), user(kind)]

    assert [call.aux for call in opened(wire)] == [False, True, False]
