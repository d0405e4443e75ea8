from __future__ import annotations

import gzip
import json
import math

import pytest
from foreign_events import dynamo, dynamo_body, dynamo_request, dynamo_tool
from foreign_traces import Json

from rotoscope.traces import TraceError
from rotoscope.traces.formats.dynamo_records import Identity, Records, read_records
from rotoscope.traces.formats.source import Source


def records(*given: Json) -> Records:
    return read_records(Source.of_bytes(dynamo(*given), "x"))


def without(record: Json, *path: str) -> Json:
    """A copy of a record that lacks one key."""
    copy: Json = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copy


def test_a_request_is_read_with_its_hashes_times_and_tools() -> None:
    record = dynamo_request("r", 1000, [7, 8], tail=3, session="s", asked=[("t", "ls")], ttft_ms=12.5, cached_tokens=4)

    (request,) = records(record).requests

    assert (request.prompt_tokens, request.block_size, list(request.block_ids)) == (7, 4, [7, 8])
    assert (request.start_ms, request.end_ms, request.ttft_ms) == (1000, 1100, 12.5)
    assert (request.completion_tokens, request.cached_tokens) == (5, 4)
    assert (request.asked, request.finish_reason, request.choices) == ((("t", "ls"),), "tool_calls", 1)
    assert request.identity == Identity(("", "s"), None)


@pytest.mark.parametrize(
    ("context", "identity"),
    [
        ({"session_id": "s", "parent_session_id": "p"}, Identity(("", "s"), ("", "p"))),
        (
            {"session_type_id": "x", "session_id": "run", "trajectory_id": "s", "parent_trajectory_id": "p"},
            Identity(("run", "s"), ("run", "p")),
        ),
        ({"workflow_type_id": "x", "workflow_id": "run", "program_id": "s"}, Identity(("run", "s"), None)),
    ],
)
def test_all_ages_of_agent_contexts_are_known(context: Json, identity: Identity) -> None:
    assert records(dynamo_request("r", 0, context=context)).requests[0].identity == identity


def test_records_may_stand_bare_and_in_the_older_schema() -> None:
    record = {**dynamo_request("r", 0), "schema": "dynamo.agent.trace.v1"}

    assert len(read_records(Source.of_bytes(json.dumps(record).encode())).requests) == 1


def test_a_request_without_hashes_has_the_length_that_the_server_counted() -> None:
    (request,) = records(dynamo_request("r", 0, None, input_tokens=77)).requests

    assert (request.prompt_tokens, request.block_size, request.block_ids) == (77, 0, ())


def test_a_request_ends_when_its_time_is_over_whenever_it_was_recorded() -> None:
    (request,) = records({**dynamo_request("a", 1000, total_ms=60.25), "event_time_unix_ms": 5000}).requests

    assert (request.start_ms, request.end_ms) == (1000, 1060.25)


def test_missing_times_follow_from_the_time_of_the_record() -> None:
    came = dynamo_request("b", 1000, total_ms=None)
    came["event_time_unix_ms"] = 1250
    ended = without(dynamo_request("c", 1000, total_ms=60.0), "request", "request_received_ms")

    first, second = records(came, ended).requests

    assert (first.start_ms, first.end_ms) == (1000, 1250)
    assert (second.start_ms, second.end_ms) == (1000, 1060)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "function_call"}, "tool_calls"),
        ({"backend_finish_reason": "cancelled"}, "cancelled"),
        ({"backend_finish_reason": "error: out of memory"}, "error"),
        ({"backend_finish_reason": "something new"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_finish_reasons(metadata: Json, reason: str) -> None:
    assert records(dynamo_request("r", 0, finish_reason_metadata=metadata)).requests[0].finish_reason == reason


@pytest.mark.parametrize(
    ("given", "extent"),
    [
        ([dynamo_tool("t", "s", 10, 50)], (10, 50)),
        ([dynamo_tool("t", "s", 10, 50, duration_ms=39.5)], (10, 49.5)),
        ([dynamo_tool("t", "s", None, 50, duration_ms=15.5)], (34.5, 50)),
        (
            [dynamo_tool("t", "s", None, 50, ended_at_unix_ms=40), dynamo_tool("t", "s", None, 20, kind="tool_start")],
            (20, 40),
        ),
        (
            [dynamo_tool("t", "s", 25, 30, kind="tool_start"), dynamo_tool("t", "s", None, 50, kind="tool_error")],
            (25, 50),
        ),
        ([dynamo_tool("t", "s", None, 50)], (50, 50)),
    ],
)
def test_when_a_tool_ran(given: list[Json], extent: tuple[float, float]) -> None:
    (tool,) = records(*given).tools()

    assert (tool.start_ms, tool.end_ms) == extent


def test_tools_that_never_ended_and_those_that_ended_twice_are_counted() -> None:
    found = records(
        dynamo_tool("a", "s", 1, 1, kind="tool_start"),
        dynamo_tool("b", "s", 2, 3),
        dynamo_tool("b", "s", 2, 9, kind="tool_error"),
        dynamo_tool("b", "other", 2, 9),
    )

    assert found.unfinished_tools == 1
    assert [(tool.session, tool.end_ms) for tool in found.tools()] == [(("", "s"), 3), (("", "other"), 9)]
    assert found.notes.counts == {"tool that ended twice (the first record is kept)": 1}


def test_a_tool_may_name_the_request_that_asked_and_the_session_that_it_ran() -> None:
    claude = {"source_request_id": "r", "child_session_id": "c", "execution_mode": "background"}

    (tool,) = records(dynamo_tool("t", "s", 1, 2, claude=claude)).tools()

    assert (tool.asking_request, tool.child, tool.is_background) == ("r", ("", "c"), True)


def test_bodies_and_headers_are_counted_and_left() -> None:
    context = {"session_id": "s", "agent_headers": {"x": "secret"}}

    found = records(dynamo_body("r", 1, "secret"), dynamo_request("r", 1, context=context, io_text={"input": "secret"}))

    assert (found.bodies, found.headers) == (2, 1)
    assert "secret" not in repr(found)


def test_compressed_segments_may_stand_one_behind_the_other() -> None:
    data = gzip.compress(dynamo(dynamo_request("a", 1))) + gzip.compress(dynamo(dynamo_request("b", 2)))

    assert [request.id for request in read_records(Source.of_bytes(data)).requests] == ["a", "b"]


GOOD = dynamo_request("r", 1000, [7, 8], session="s")
REPLAY = {"trace_block_size": 4, "input_length": 4}
DAMAGES: dict[str, tuple[Json | list[Json], str]] = {
    "no schema": (without(GOOD, "schema"), "x:1: event.schema: required, but not there"),
    "newer schema": (
        {**GOOD, "schema": "dynamo.request.trace.v2"},
        "x:1: event.schema: expected 'dynamo.request.trace.v1'",
    ),
    "unknown event": ({**GOOD, "event_type": "request_begin"}, "x:1: event.event_type: expected one of request_end, "),
    "no time": (without(GOOD, "event_time_unix_ms"), "x:1: event.event_time_unix_ms: required"),
    "no request": (without(GOOD, "request"), "x:1: event.request: required"),
    "no request id": (without(GOOD, "request", "request_id"), "x:1: event.request.request_id: required"),
    "request id of another kind": (
        dynamo_request("r", 1, request_id=7),
        "x:1: event.request.request_id: expected a string, found",
    ),
    "taken id": ([GOOD, GOOD], "x:2: event.request.request_id: expected an id of its own"),
    "negative output": (dynamo_request("r", 1, out=-1), "x:1: event.request.output_tokens: expected an integer from 0"),
    "huge output": (dynamo_request("r", 1, out=2**40), "x:1: event.request.output_tokens: expected an integer from 0"),
    "not a number": (dynamo_request("r", 1, ttft_ms=math.nan), "x:1: event.request.ttft_ms: expected a number from 0"),
    "endless": (dynamo_request("r", 1, total_time_ms=math.inf), "x:1: event.request.total_time_ms: expected a number"),
    "negative time": (
        dynamo_request("r", 1, total_time_ms=-3.0),
        "x:1: event.request.total_time_ms: expected a number",
    ),
    "far time": ([GOOD, dynamo_request("q", 10**13)], "x:2: event.event_time_unix_ms: expected a time near"),
    "far arrival": (
        dynamo_request("q", 1, request_received_ms=10**13),
        "x:1: event.request.request_received_ms: expected a time near",
    ),
    "far tool": (dynamo_tool("t", "s", 10**13, 5), "x:1: event.tool.started_at_unix_ms: expected a time near"),
    "too few hashes": (
        dynamo_request("r", 1, replay={"trace_block_size": 4, "input_length": 9, "input_sequence_hashes": [1, 2]}),
        "x:1: event.request.replay.input_sequence_hashes: expected 3 hashes for 9 tokens, found 2",
    ),
    "too many hashes": (
        dynamo_request("r", 1, replay={"trace_block_size": 4, "input_length": 4, "input_sequence_hashes": [1, 2]}),
        "expected 1 hashes for 4 tokens, found 2",
    ),
    "hashes of another kind": (
        dynamo_request("r", 1, replay=REPLAY | {"input_sequence_hashes": ["a"]}),
        "input_sequence_hashes[0]: expected an integer, found a string",
    ),
    "negative hash": (dynamo_request("r", 1, [-1]), "input_sequence_hashes: expected integers of 64 bits"),
    "longer hash": (dynamo_request("r", 1, [2**64]), "input_sequence_hashes[0]: expected an integer"),
    "no block size": (
        dynamo_request("r", 1, replay={"trace_block_size": 0, "input_length": 0, "input_sequence_hashes": []}),
        "trace_block_size: expected an integer from 1",
    ),
    "too many choices": (
        dynamo_request("r", 1, finish_reason_metadata={"choices": [{}] * 129}),
        "choices: expected at most 128, found 129",
    ),
    "asked tool of another kind": (
        dynamo_request("r", 1, finish_reason_metadata={"tool_calls": [5]}),
        "finish_reason_metadata.tool_calls[0]: expected an object, found a number",
    ),
    "tool without session": (
        without(dynamo_tool("t", "s", 1, 2), "agent_context"),
        "x:1: event.agent_context: required",
    ),
    "context without session": (
        without(dynamo_tool("t", "s", 1, 2), "agent_context", "session_id"),
        "agent_context.session_id: required",
    ),
    "tool without id": (
        without(dynamo_tool("t", "s", 1, 2), "tool", "tool_call_id"),
        "x:1: event.tool.tool_call_id: required",
    ),
    "tool without class": (
        without(dynamo_tool("t", "s", 1, 2), "tool", "tool_class"),
        "x:1: event.tool.tool_class: required",
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_told_with_line_and_field(kind: str) -> None:
    given, expected = DAMAGES[kind]

    with pytest.raises(TraceError) as caught:
        records(*given if isinstance(given, list) else [given])

    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (dynamo(GOOD)[:-20], "x:1: the file ends in the middle"),
        (dynamo(GOOD) + b'{"event": 5}\n', "x:2: event: expected an object, found a number"),
        (dynamo(GOOD) + b"[]\n", "x:2: expected an object, found a list"),
        (dynamo(GOOD) + b"\x00\xff\n", "x:2: expected UTF-8"),
        (dynamo(GOOD) + b'{"a" 1}\n', "x:2: not JSON"),
        (gzip.compress(dynamo(GOOD), mtime=0)[:-12], "x: the compressed file is damaged or cut short"),
    ],
)
def test_lines_that_are_no_records_are_told(data: bytes, expected: str) -> None:
    with pytest.raises(TraceError, match="x") as caught:
        read_records(Source.of_bytes(data, "x"))

    assert str(caught.value).startswith(expected)
