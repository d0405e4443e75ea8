from __future__ import annotations

import re

import pytest
from foreign_traces import Json, agent, request, weka

from rotoscope.traces import TraceError
from rotoscope.traces.formats.fields import Notes
from rotoscope.traces.formats.weka_requests import SourceAgent, SourceRequest, parse_session, parse_weka

FIRST = request(0, [1, 2], tail=3)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (FIRST | {"t": -1}, "event 1: t: expected a number from 0 to 2.5e+08, found -1"),
        (FIRST | {"t": float("nan")}, "event 1: t: expected a number from 0 to 2.5e+08, found nan"),
        (FIRST | {"t": None}, "event 1: t: required, but not there"),
        (FIRST | {"in": 0}, "event 1: in: expected an integer from 1"),
        (FIRST | {"in": 10**30}, "event 1: in: expected an integer, found 1e+30"),
        (FIRST | {"out": -5}, "event 1: out: expected an integer from 0"),
        (FIRST | {"out": "secret"}, "event 1: out: expected an integer, found a string"),
        (FIRST | {"out": None}, "event 1: out: required, but not there"),
        (FIRST | {"hash_ids": [1]}, "event 1: hash_ids: expected 2 or 3 ids for 131 tokens, found 1"),
        (FIRST | {"hash_ids": [1, 2, 3, 4]}, "event 1: hash_ids: expected 2 or 3 ids for 131 tokens, found 4"),
        (request(0, [1]) | {"hash_ids": [1, 2]}, "event 1: hash_ids: expected 1 ids for 64 tokens, found 2"),
        (FIRST | {"hash_ids": [1, "secret"]}, "event 1: hash_ids[1]: expected an integer, found a string"),
        (FIRST | {"hash_ids": "secret"}, "event 1: hash_ids: expected a list, found a string"),
        (FIRST | {"model": ["secret"]}, "event 1: model: expected a string, found a list"),
        (FIRST | {"input_types": [3]}, "event 1: input_types[0]: expected a string, found a number"),
        (FIRST | {"api_time": -0.5}, "event 1: api_time: expected a number from 0"),
        (FIRST | {"think_time": "secret"}, "event 1: think_time: expected a number, found a string"),
        (FIRST | {"ttft": True}, "event 1: ttft: expected a number, found a boolean"),
        (FIRST | {"type": 3}, "event 1: type: expected a string, found a number"),
        (agent(0, FIRST, FIRST | {"out": -1}), "event 1: requests[1].out: expected an integer from 0"),
        (agent(0, agent(0)), "event 1: requests[0].type: expected a request, found a sub-agent inside a sub-agent"),
        (agent(0, duration_ms=-1), "event 1: duration_ms: expected a number from 0"),
        (agent(0) | {"requests": None}, "event 1: requests: required, but not there"),
    ],
)
def test_damage_is_named_with_event_and_field_and_quotes_no_text(entry: Json, error: str) -> None:
    with pytest.raises(TraceError, match=re.escape(error)) as caught:
        parse_weka(weka(FIRST, entry))

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "expected a JSON object, found an empty file"),
        (b"3", "expected an object, found a number"),
        (weka(FIRST)[:-20], "truncated"),
        (weka(FIRST, hash_id_scope="elsewhere"), "hash_id_scope: expected 'local' or 'global'"),
        (weka(FIRST, block_size=0), "block_size: expected an integer from 1"),
        (weka(FIRST, id=3), "id: expected a string, found a number"),
        (weka("x"), "event 0: expected an object, found a string"),  # type: ignore[arg-type]
        (b'{"id": "x", "block_size": 64}', "requests: required, but not there"),
    ],
)
def test_a_file_that_is_no_such_trace_is_an_error(data: bytes, error: str) -> None:
    with pytest.raises(TraceError, match=error):
        parse_weka(data)


def test_block_counts_may_leave_the_tail_out_or_count_it() -> None:
    counted = FIRST | {"hash_ids": [1, 2, 3]}

    entries = parse_weka(weka(FIRST, counted)).entries

    assert [e.block_ids for e in entries if isinstance(e, SourceRequest)] == [(1, 2), (1, 2, 3)]


def test_times_are_milliseconds_and_may_be_absent() -> None:
    timed = FIRST | {"t": 1.5, "api_time": 2.25, "think_time": 0.5, "ttft": 0.1}

    first, second = parse_weka(weka(FIRST, timed)).entries

    assert isinstance(first, SourceRequest)
    assert isinstance(second, SourceRequest)
    assert (first.at_ms, first.api_ms, first.think_ms, first.ttft_ms) == (0, None, None, None)
    assert (second.at_ms, second.api_ms, second.think_ms, second.ttft_ms) == (1500, 2250, 500, 100)


def test_a_sub_agent_has_requests_of_its_own() -> None:
    (entry,) = parse_weka(weka(agent(3, FIRST, duration_ms=40))).entries

    assert isinstance(entry, SourceAgent)
    assert (entry.at_ms, entry.duration_ms, len(entry.requests)) == (3000, 40, 1)


def test_unknown_keys_are_noted() -> None:
    source = parse_weka(weka(FIRST | {"note": "x"}, extra=1))

    assert source.notes.counts == {"unknown field (dropped)": 2}


@pytest.mark.parametrize(("scope", "is_global"), [("local", False), ("global", True), (None, False)])
def test_ids_hold_in_one_session_unless_they_are_said_to_hold_in_all(scope: str | None, is_global: bool) -> None:
    assert parse_weka(weka(FIRST, hash_id_scope=scope)).is_global is is_global


@pytest.mark.parametrize(("types", "thinks"), [(["text", "thinking"], True), (["text"], False), (None, False)])
def test_an_answer_may_hold_reasoning_of_unknown_size(types: list[str] | None, thinks: bool) -> None:
    (entry,) = parse_weka(weka(FIRST | {"output_types": types})).entries

    assert isinstance(entry, SourceRequest)
    assert entry.thinks is thinks


def test_damage_in_a_line_of_sessions_is_named_with_the_line() -> None:
    session = {"id": "x", "block_size": 64, "requests": [FIRST, agent(0) | {"requests": [FIRST | {"out": -1}]}]}

    with pytest.raises(TraceError, match=re.escape(":7: event 1: requests[0].out: expected an integer from 0")):
        parse_session(session, Notes(), line=7)
