from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from chat_wire import PATH, Wire, assistant, tool_call, user

from rotoscope.recorder.packing import NestedTooDeep, packed, written


def nested(levels: int) -> Any:
    value: Any = "secret"
    for _ in range(levels):
        value = [value]
    return value


def test_keys_are_sorted_or_as_they_came() -> None:
    value = {"b": 1, "a": {"d": 2, "c": 3}}

    assert packed(value) == b'{"a":{"c":3,"d":2},"b":1}'
    assert written(value) == b'{"b":1,"a":{"d":2,"c":3}}'


@pytest.mark.parametrize("write", [packed, written])
def test_what_is_nested_too_deep_is_said_so(write: Any) -> None:
    with pytest.raises(NestedTooDeep, match="its JSON is nested too deep"):
        write(orjson.loads(json.dumps(nested(600))))


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": nested(600)}]},
        {"messages": [user("hello")], "tools": nested(600)},
        {"messages": [user("hello")], "model": nested(600)},
        {"messages": [user("hello")], "stream": True, "stream_options": {"a": nested(600)}},
    ],
    ids=["messages", "tools", "model", "options"],
)
def test_request_that_is_nested_too_deep_passes_and_the_reason_is_told_in_words(fields: dict[str, Any]) -> None:
    wire, body = Wire(), json.dumps(fields).encode()

    exchange = wire.recorder.request(PATH, body, at_s=1.0)

    assert (exchange.recorded, exchange.upstream_body) == (False, body)
    assert wire.recorder.trouble == ["a request was not recorded: its JSON is nested too deep"]


def test_arguments_that_are_text_may_be_nested_as_deep_as_they_like() -> None:
    wire = Wire()
    deep = tool_call("1", arguments=json.dumps(nested(600)))
    wire.answer(wire.ask([user("hello")]), assistant(calls=[deep]))
    wire.answer(wire.ask([user("hello"), assistant(calls=[deep])]), assistant("done"))

    assert len(wire.calls()) == 2
    assert wire.recorder.trouble == []
