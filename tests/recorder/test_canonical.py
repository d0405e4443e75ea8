from __future__ import annotations

from typing import Any

import pytest
from chat_wire import assistant, result, tool, tool_call, user
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.canonical import (
    MEDIA_TOKENS,
    Part,
    answer_part,
    id_bytes,
    ids_part,
    message_part,
    one_spaced,
    text_part,
    tools_part,
)

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def exact(message: dict[str, Any]) -> bytes:
    return message_part(message).exact


def loose(message: dict[str, Any]) -> bytes:
    return message_part(message).loose


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("a"), {"content": "a", "role": "user"}),
        (user("a"), user([{"type": "text", "text": "a"}])),  # type: ignore[arg-type]
        (user("a"), user([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])),  # type: ignore[arg-type]
        (assistant(""), {"role": "assistant", "content": None}),
        (assistant("a"), assistant("a") | {"refusal": None, "annotations": [], "tool_calls": [], "name": ""}),
        (assistant("a"), assistant("a") | {"reasoning_content": ""}),
        (assistant(thinking="x"), {"role": "assistant", "content": "", "reasoning": "x"}),
    ],
)
def test_messages_that_are_rendered_alike_have_one_exact_form(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert exact(one) == exact(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("a"), user("b")),
        (user("a"), user("a ")),
        (user("a"), {"role": "system", "content": "a"}),
        ({"role": "system", "content": "a"}, {"role": "developer", "content": "a"}),
        (user("a"), user("a") | {"name": "bob"}),
        (result("1", "a"), result("2", "a")),
        (assistant(calls=[tool_call("1")]), assistant(calls=[tool_call("2")])),
        (assistant(calls=[tool_call("1")]), assistant(calls=[tool_call("1", arguments="{ }")])),
        (assistant("a"), assistant("a", thinking="b")),
        (user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), user("ab")),  # type: ignore[arg-type]
        (user([IMAGE]), user([IMAGE | {"image_url": {"url": "data:image/png;base64,BBBB"}}])),  # type: ignore[arg-type]
    ],
)
def test_messages_that_some_template_renders_otherwise_have_two(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert exact(one) != exact(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("a  b\n"), user("a b")),
        (result("1", "a"), result("2", "a")),
        (assistant(calls=[tool_call("1")]), assistant(calls=[tool_call("2")])),
        (
            assistant(calls=[tool_call("1", arguments='{"a":1}')]),
            assistant(calls=[tool_call("1", arguments='{ "a": 1 }')]),
        ),
        (assistant("a"), assistant("a", thinking="b")),
        (user([{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]), user("a b")),  # type: ignore[arg-type]
    ],
)
def test_what_some_template_may_ignore_is_not_in_the_loose_form(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert loose(one) == loose(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("a b"), user("ab")),
        (assistant(calls=[tool_call("1", "read")]), assistant(calls=[tool_call("1", "write")])),
        (
            assistant(calls=[tool_call("1", arguments='{"a":1}')]),
            assistant(calls=[tool_call("1", arguments='{"a":2}')]),
        ),
        (
            assistant(calls=[tool_call("1", arguments="{not json")]),
            assistant(calls=[tool_call("1", arguments="{no json")]),
        ),
        (user([IMAGE]), user("")),  # type: ignore[arg-type]
    ],
)
def test_what_no_template_ignores_is_in_the_loose_form(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert loose(one) != loose(other)


def test_an_answer_has_the_form_of_the_message_that_is_sent_back() -> None:
    message = assistant("a", calls=[tool_call("1", "read", '{"a": 1}')], thinking="hm")

    assert answer_part("a", [("1", "read", '{"a": 1}')], "hm") == message_part(message)


@given(text=st.text(max_size=200))
def test_no_text_has_more_bytes_than_its_part_has_tokens_at_most(text: str) -> None:
    part = message_part(user(text))

    assert part.most_tokens >= len(text.encode())
    assert part.most_tokens >= len(ascii(text)) - 2
    assert len(part.loose) <= part.text_bytes == len(text.encode())


def test_media_may_take_many_tokens() -> None:
    assert message_part(user([IMAGE])).most_tokens > MEDIA_TOKENS  # type: ignore[arg-type]


def test_sizes_count_text_thinking_and_arguments_in_bytes() -> None:
    part = message_part(assistant("ä", calls=[tool_call("1", "read", "{}")], thinking="hmm"))

    assert (part.text_bytes, part.reasoning_bytes, part.has_calls) == (2 + len("read") + 2, 3, True)


def test_schemas_are_the_same_in_any_order_of_keys() -> None:
    one = {"name": "a", "parameters": {}}
    other = {"parameters": {}, "name": "a"}

    assert tools_part([one], {}).exact == tools_part([other], {}).exact
    assert tools_part([tool("a")], {}).exact != tools_part([tool("b")], {}).exact


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": 3},
        {"role": "user", "content": 3},
        {"role": "user", "content": [3, None, {"type": "text"}, "a"]},
        {"role": "assistant", "tool_calls": [None, {}, {"function": 3}, {"function": {"arguments": {"a": 1}}}]},
        {"role": "assistant", "tool_calls": "x", "function_call": {"name": "a", "arguments": None}},
        {"role": "assistant", "reasoning_content": ["x"], "content": {"a": 1}},
        {"role": "tool", "tool_call_id": 3, "name": {"a": 1}},
    ],
)
def test_any_json_object_has_a_form(message: dict[str, Any]) -> None:
    assert message_part(message).exact


def test_the_text_is_not_in_the_repr() -> None:
    assert "CANARY" not in repr(message_part(assistant("CANARY", calls=[tool_call("CANARY", "CANARY")])))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (message_part(user("a b")), "a b"),
        (message_part(user([{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}])), "ab"),  # type: ignore[arg-type]
        (message_part(assistant("a", thinking="t")), "a"),
        (message_part(assistant(calls=[tool_call("1", "f", '{"x":1}')])), '{"name": "f", "arguments": {"x":1}}'),
        (
            answer_part("a", [("1", "f", ""), ("2", "g", "{}")], "t"),
            'a{"name": "f", "arguments": {}}\n{"name": "g", "arguments": {}}',
        ),
        (tools_part([{"b": 1, "a": "ü"}, {}], {"thinking": True}), '{"b": 1, "a": "ü"}\n{}'),
        (tools_part(None, {"functions": [{"f": 1}], "response_format": {"type": "json"}}), '{"f": 1}'),
        (text_part("plain"), "plain"),
        (ids_part(id_bytes([1, 2])), ""),
    ],
)
def test_what_is_counted_of_a_part_is_as_most_templates_write_it(part: Part, text: str) -> None:
    assert part.countable == text


def test_media_and_thinking_are_told_apart_from_what_is_counted() -> None:
    part = message_part(user([IMAGE]) | {"reasoning": "t"})  # type: ignore[arg-type]

    assert (part.has_media, part.reasoning, part.countable) == (True, "t", "")


@given(st.text("ab \n\t\x1c\u3000"), st.integers(1, 5))
def test_a_long_text_is_spaced_as_a_short_one(text: str, stretch_chars: int) -> None:
    assert one_spaced(text, stretch_chars=stretch_chars) == " ".join(text.split())
