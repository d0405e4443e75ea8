from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from chat_wire import assistant, result, tool, tool_call, user
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.growing_bodies import KEPT, MOST_STRETCHES, GrowingBodies

Body = dict[str, Any]
TEXTS = ["a", 'say "hi"\n', "ä", "]}", '],"tools":[', "\\", '{"role":"user","content":"a"}']
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.sampled_from(TEXTS)),
        st.builds(assistant, st.sampled_from(TEXTS)),
        st.just(assistant(calls=[tool_call("1", arguments='{"messages":[]}')])),
        st.builds(result, st.just("1"), st.sampled_from(TEXTS)),
        st.just({"role": "user", "content": [{"type": "text", "text": "a"}, {"messages": [1]}]}),
    ),
    min_size=1,
    max_size=4,
)
WRITERS: dict[str, Callable[[Any], bytes]] = {
    "compact": orjson.dumps,
    "spaced": lambda value: json.dumps(value).encode(),
    "spaced, not escaped": lambda value: json.dumps(value, ensure_ascii=False).encode(),
    "escaped": lambda value: json.dumps(value, separators=(",", ":")).encode(),
    "indented": lambda value: json.dumps(value, indent=1).encode(),
}
LAYOUTS = st.sampled_from(
    [
        ("messages", "model"),
        ("model", "messages", "tools", "stream"),
        ("metadata", "messages"),
        ("tools", "stop", "messages"),
        ("messages",),
    ]
)
FIELDS = {
    "model": "m",
    "tools": [tool("a"), user("a")],
    "stream": True,
    "metadata": {"messages": [1]},
    "stop": [user("a")],
}


def request(messages: list[Body], layout: tuple[str, ...] = ("messages", "model"), **fields: Any) -> Body:
    return {key: messages if key == "messages" else FIELDS[key] for key in layout} | fields


def learned(body: bytes) -> GrowingBodies[str]:
    bodies: GrowingBodies[str] = GrowingBodies()
    bodies.learn(body, orjson.loads(body), "value")
    return bodies


@pytest.mark.parametrize("write", [w for name, w in WRITERS.items() if name != "indented"], ids=lambda _: "")
def test_a_body_that_goes_on_is_recognised_however_it_is_written(write: Any) -> None:
    old, new = [user("ä")], [assistant("b"), user("c")]
    match = learned(write(request(old))).match(write(request([*old, *new])))

    assert match is not None
    assert (match[0].value, match[1]) == ("value", new)


def test_the_same_body_again_has_no_new_messages() -> None:
    body = orjson.dumps(request([user("a")]))
    match = learned(body).match(body)

    assert match is not None
    assert match[1] == []


@pytest.mark.parametrize(
    "other",
    [
        request([user("b"), user("c")]),
        request([user("a"), user("c")], model="n"),
        request([user("a"), user("c")], temperature=1),
        request([user("a")], ("model", "messages")),
    ],
)
def test_a_body_that_differs_otherwise_is_not_recognised(other: Body) -> None:
    assert learned(orjson.dumps(request([user("a")]))).match(orjson.dumps(other)) is None


@given(layout=LAYOUTS, old=MESSAGES, then=MESSAGES, other=MESSAGES, name=st.sampled_from(sorted(WRITERS)))
def test_what_is_recognised_is_the_earlier_request_with_the_new_messages(
    layout: tuple[str, ...], old: list[Body], then: list[Body], other: list[Body], name: str
) -> None:
    write, bodies = WRITERS[name], learned(WRITERS[name](request(old, layout)))
    for messages in (other, [*old, *then], [*old, *then, *other], [*then, *old]):
        match = bodies.match(write(request(messages, layout)))
        if match is not None:
            known, new = match
            assert messages == [*json.loads(known.value), *new] if known.value != "value" else [*old, *new]
            bodies.go_on(known, write(request(messages, layout)), json.dumps(messages))


@given(layout=st.sampled_from([("messages", "model"), ("model", "messages")]), old=MESSAGES, then=MESSAGES)
def test_plain_bodies_that_go_on_are_always_recognised(
    layout: tuple[str, ...], old: list[Body], then: list[Body]
) -> None:
    match = learned(orjson.dumps(request(old, layout))).match(orjson.dumps(request([*old, *then], layout)))

    assert match is not None
    assert match[1] == then


@pytest.mark.parametrize("between", [b'],"model":"n","x":[', b",", b"x", b",1]", b'},{"role":"user"'])
def test_what_is_no_list_of_messages_is_not_read_as_one(between: bytes) -> None:
    body = orjson.dumps(request([user("a")]))
    at = body.index(b"]")

    assert learned(body).match(body[:at] + between + body[at:]) is None


def test_a_long_conversation_is_recognised_at_every_turn() -> None:
    messages = [user("a")]
    bodies = learned(orjson.dumps(request(messages)))
    for turn in range(2 * MOST_STRETCHES + 2):
        messages.append(user(f"turn {turn}"))
        body = orjson.dumps(request(messages))
        match = bodies.match(body)
        assert match is not None
        assert match[1] == messages[-1:]
        bodies.go_on(match[0], body, "value")


def test_some_conversations_at_once_are_kept_and_the_oldest_is_dropped() -> None:
    bodies: GrowingBodies[int] = GrowingBodies()
    wires = [orjson.dumps(request([user(f"conversation {n}")])) for n in range(KEPT + 1)]
    for number, body in enumerate(wires):
        bodies.learn(body, orjson.loads(body), number)

    assert bodies.match(wires[0]) is None
    assert [match[0].value for body in wires[1:] if (match := bodies.match(body))] == list(range(1, KEPT + 1))


def test_no_text_is_kept() -> None:
    bodies = learned(orjson.dumps(request([user("CANARY")])))

    assert "CANARY" not in repr(bodies) + repr(bodies._known)


@pytest.mark.parametrize("sent", [{}, {"items": "x"}, {"items": []}, {"items": None}, {"inside": {"items": [1]}}])
def test_a_body_whose_list_is_none_is_not_learnt(sent: dict[str, object]) -> None:
    bodies = GrowingBodies[int]("items")
    body = orjson.dumps(sent)
    bodies.learn(body, sent, 0)

    assert bodies.match(body) is None
