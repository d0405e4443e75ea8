from __future__ import annotations

import re

import pytest
from foreign_traces import Json, call, fork, message, tool, trtllm

from rotoscope.traces import TraceError
from rotoscope.traces.formats.trtllm_events import SourceCall, SourceMessage, parse_trtllm

USER = message("user", 0, 5)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (message("user", 0, -1), "event 1: tokens: expected an integer from 0 to 2147483647, found -1"),
        (message("user", 0, None), "event 1: tokens: required, but not there"),
        (message("system", 0, None), "event 1: tokens: required, but not there"),
        (USER | {"tokens": 1.5}, "event 1: tokens: expected an integer, found 1.5"),
        (USER | {"tokens": True}, "event 1: tokens: expected an integer, found a boolean"),
        (USER | {"tokens": "secret"}, "event 1: tokens: expected an integer, found a string"),
        (USER | {"tokens": 10**400}, "event 1: tokens: expected an integer from 0 to 2147483647, found a number"),
        (USER | {"role": "secret"}, "event 1: role: expected one of system, user, tool, assistant"),
        (USER | {"branch_path": [0, -2]}, "event 1: branch_path[1]: expected an integer from 0"),
        (USER | {"branch_path": 3}, "event 1: branch_path: expected a list, found a number"),
        (USER | {"conversation_id": "secret"}, "event 1: conversation_id: expected an integer, found a string"),
        (USER | {"message_index": 2**31 - 1}, "event 1: message_index: expected an integer from 0 to 1073741824"),
        (USER | {"message_index": -1}, "event 1: message_index: expected an integer from 0"),
        (USER | {"event_type": "secret"}, "event 1: event_type: expected one of message, tool_call"),
        (USER | {"event_type": None}, "event 1: event_type: required, but not there"),
        ({}, "event 1: event_type: required, but not there"),
        (call(0, None), "event 1: prompt_tokens: required, but not there"),
        (call(0, 0), "event 1: prompt_tokens: expected an integer from 1"),
        (call(0, 5, None), "event 1: completion_tokens: required, but not there"),
        (call(0, 5, 3, 4), "event 1: reasoning_tokens: expected at most the 3 completion_tokens, found 4"),
        (call(0, 5, tool_calls=["a", 1]), "event 1: tool_calls[1]: expected a string, found a number"),
        (call(0, 5, tool_calls={"secret": 1}), "event 1: tool_calls: expected a list, found an object"),
        (call(0, 5, llm_duration_ms=-1), "event 1: llm_duration_ms: expected a number from 0 to 2.5e+11, found -1"),
        (tool(duration_ms=float("nan")), "event 1: duration_ms: expected a number from 0 to 2.5e+11, found nan"),
        (tool(duration_ms=float("inf")), "event 1: duration_ms: expected a number from 0 to 2.5e+11, found inf"),
        (tool(duration_ms=10**400), "event 1: duration_ms: expected a number from 0 to 2.5e+11, found a number"),
        (tool(duration_ms="secret"), "event 1: duration_ms: expected a number, found a string"),
        (tool() | {"tool_name": ["secret"]}, "event 1: tool_name: expected a string, found a list"),
        (fork(0), "event 1: num_branches: expected an integer from 1 to 100000, found 0"),
        (fork(10**9), "event 1: num_branches: expected an integer from 1 to 100000, found 1000000000"),
    ],
)
def test_damage_is_named_with_event_and_field_and_quotes_no_text(event: Json, error: str) -> None:
    with pytest.raises(TraceError, match=re.escape(error)) as caught:
        parse_trtllm(trtllm(USER, event))

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "expected a JSON object, found an empty file"),
        (b"[]", "expected an object, found a list"),
        (trtllm(USER)[:-9], "truncated"),
        (b'{"trace_id": "x", "events": [}', "not JSON at column 30"),
        (b'{"trace_id": "x", "events": [\xff]}', "expected UTF-8"),
        (b'{"trace_id": "x", "events": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"trace_id": "x", "events": [' + b"9" * 5000 + b"]}", "number too long"),
        (b'{"trace_id": "x"}', "events: required, but not there"),
        (b'{"trace_id": "x", "events": {}}', "events: expected a list, found an object"),
        (b'{"trace_id": "x", "events": [7]}', "event 0: expected an object, found a number"),
        (b'{"trace_id": 7, "events": []}', "trace_id: expected a string, found a number"),
        (b'{"events": []}', "trace_id: required, but not there"),
    ],
)
def test_a_file_that_is_no_such_trace_is_an_error(data: bytes, error: str) -> None:
    with pytest.raises(TraceError, match=error):
        parse_trtllm(data)


def test_an_assistant_message_without_counts_is_history_and_one_with_counts_a_call() -> None:
    events = parse_trtllm(trtllm(message("assistant", 0, None), call(1, 5))).events

    assert [type(event) for event in events] == [SourceMessage, SourceCall]


def test_a_null_is_the_same_as_an_absent_key() -> None:
    source = parse_trtllm(trtllm(USER | {"system_prompt_id": None, "tool_stdout": None, "branch_path": None}))

    assert source.events == parse_trtllm(trtllm(USER)).events
    assert not source.notes.counts


def test_what_is_dropped_is_counted_by_kind() -> None:
    more = {"content": "c", "tool_stdout": "o", "tokenize_error": "e", "tokens_source": "s", "their own key": 1}

    source = parse_trtllm(trtllm(USER | more, model="m"))

    assert source.notes.counts == {
        "field with content (dropped)": 2,
        "tokenize_error (dropped)": 1,
        "tokens_source (dropped: the counts are taken as given)": 1,
        "unknown field (dropped)": 2,
    }
