"""The files here are made by hand from the schema that `dynamo_records.py` names; none was captured."""

from __future__ import annotations

import gzip
import json
import logging

import pytest
from foreign_events import dynamo, dynamo_body, dynamo_request, dynamo_tool
from foreign_traces import Json
from format_damage import every_place, read_or_told, replaced
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import Call, ParallelEnd, ParallelStart, Prefix, ToolCall, TraceError, Wait, dumps, loads
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import dynamo as module
from rotoscope.traces.formats.dynamo import read
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import SharedPrefix


def members(*records: Json, fidelity: Fidelity | None = None) -> list[Member]:
    found = read(Source.of_bytes(dynamo(*records), "x"), Fidelity() if fidelity is None else fidelity)
    for member in found:
        assert loads(dumps(member.trace)) == member.trace
    return found


def prefixes(member: Member) -> list[tuple[object, int]]:
    return [(call.prefix.of, call.prefix.tokens) for call in member.trace.calls()]


def counted(*records: Json) -> dict[Aspect, int]:
    fidelity = Fidelity()
    members(*records, fidelity=fidelity)
    return dict(fidelity.counts)


def test_sessions_are_traces_on_one_clock_and_share_what_their_hashes_say() -> None:
    first, second = members(
        dynamo_request("a", 5000, [1, 2], session="A"),
        dynamo_request("b", 5200, [1, 9], tail=2, session="B"),
        dynamo_request("c", 5400, [1, 2, 3], session="A"),
        dynamo_request("d", 5600, [1, 9], tail=2, session="B"),
    )

    assert (first.start_ms, second.start_ms) == (0, 200)
    assert (first.ranks, second.ranks) == ((0, 2), (1, 3))
    assert first.trace.shared_prefixes == second.trace.shared_prefixes == (SharedPrefix("s0", "group", 4),)
    assert (prefixes(first), prefixes(second)) == ([("s0", 4), (0, 8)], [("s0", 4), (0, 6)])
    assert first.trace.campaign == second.trace.campaign
    assert first.trace.trace_id != second.trace.trace_id
    assert (first.trace.prefix_granularity, first.trace.outputs) == (4, "unknown")
    assert [call.at_ms for call in second.trace.calls()] == [0, 400]


def test_a_call_has_all_that_its_record_says() -> None:
    ((call,),) = (
        list(member.trace.calls())
        for member in members(
            dynamo_request("a", 7, [1], session="A", ttft_ms=20.5, cached_tokens=3, asked=[("t", "x")])
        )
    )

    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens) == (4, 5, 3)
    assert (call.ttft_ms, call.duration_ms, call.finish_reason) == (20.5, 100, "tool_calls")
    assert call.tool_calls == ("tool0",)


def test_records_may_come_in_any_order() -> None:
    records = [
        dynamo_request("a", 0, [1], session="A", asked=[("t", "ls")]),
        dynamo_tool("t", "A", 110, 110, kind="tool_start"),
        dynamo_tool("t", "A", None, 150),
        dynamo_request("c", 120, [7], session="C", parent="A"),
        dynamo_request("b", 300, [1, 2], session="A"),
    ]

    assert members(*records) == members(*reversed(records))


def test_sub_sessions_are_branches_that_fork_and_join_in_time() -> None:
    (member,) = members(
        dynamo_request("a", 0, [1], session="A"),
        dynamo_request("b", 150, [1, 5], session="B", parent="A"),
        dynamo_request("c", 180, [1, 6], session="C", parent="A"),
        dynamo_request("d", 190, [1, 5, 7], session="D", parent="B", total_ms=10.0),
        dynamo_request("e", 400, [1, 2], session="A"),
    )

    events = [event for event in member.trace.events if not isinstance(event, Wait)]
    assert [(type(event), event.branch) for event in events] == [
        (Call, None),
        (ParallelStart, None),
        (Call, (0, 0)),
        (Call, (0, 1)),
        (ParallelStart, (0, 0)),
        (Call, (1, 0)),
        (ParallelEnd, None),
        (Call, None),
    ]
    assert prefixes(member) == [(None, 0), (0, 4), (0, 4), (1, 8), (0, 4)]


def test_models_are_domains_and_share_nothing() -> None:
    (member,) = members(
        dynamo_request("a", 0, [1], session="A"), dynamo_request("b", 200, [1], session="A", model="other")
    )

    assert [(call.domain, call.prefix.tokens) for call in member.trace.calls()] == [(0, 0), (1, 0)]


def test_requests_that_name_no_session_are_grouped_by_the_prompts_they_extend() -> None:
    found = members(
        dynamo_request("a", 0, [1, 2]),
        dynamo_request("b", 10, [1, 8]),
        dynamo_request("c", 200, [1, 2, 3]),
        dynamo_request("d", 210, [1, 8, 9]),
        dynamo_request("e", 220, [1, 8, 9], session="told"),
    )

    assert [member.ranks for member in found] == [(0, 2), (1, 3), (4,)]


def test_a_tool_belongs_to_the_answer_that_named_it_else_to_the_last_one_before_it() -> None:
    (member,) = members(
        dynamo_request("a", 0, [1], session="A", asked=[("t", "ls")]),
        dynamo_request("b", 200, [1, 2], session="A"),
        dynamo_tool("t", "A", 320, 330, name="ls"),
        dynamo_tool("u", "A", 320, 340, name="cat"),
        dynamo_tool("v", "A", 350, 360, name="ls", claude={"source_request_id": "a", "execution_mode": "blocking"}),
        dynamo_request("c", 500, [1, 2, 3], session="A"),
    )

    assert [call.tool_calls for call in member.trace.calls()] == [("tool0", "tool0"), ("tool1",), ()]
    tools = [event for event in member.trace.events if isinstance(event, ToolCall)]
    assert [(tool.tool_name, tool.call, tool.at_ms, tool.duration_ms) for tool in tools] == [
        ("tool0", 0, 320, 10),
        ("tool1", 1, 320, 20),
        ("tool0", 0, 350, 10),
    ]
    assert {tool.time_source for tool in tools} == {"client"}


def test_tools_that_no_harness_reported_have_the_gap() -> None:
    (member,) = members(
        dynamo_request("a", 0, [1], session="A", asked=[("t", "ls"), (None, None)]),
        dynamo_request("b", 250, [1, 2], session="A", finish_reason_metadata={"finish_reason": "tool_calls"}),
        dynamo_request("c", 400, [1, 2, 3], session="A"),
    )

    tools = [event for event in member.trace.events if isinstance(event, ToolCall)]
    assert [(tool.tool_name, tool.call, tool.at_ms, tool.duration_ms, tool.time_source) for tool in tools] == [
        ("tool0", 0, 100, 150, "gap"),
        ("tool1", 0, 100, 150, "gap"),
        ("tool1", 1, 350, 50, "gap"),
    ]
    assert not any(isinstance(event, Wait) for event in member.trace.events)


def test_time_before_what_a_person_wrote_is_theirs() -> None:
    context = {"session_id": "A", "input_trigger": "user_message"}

    (member,) = members(
        dynamo_request("a", 0, [1], session="A", asked=[("t", "ls")]), dynamo_request("b", 900, [1, 2], context=context)
    )

    (wait,) = (event for event in member.trace.events if not isinstance(event, Call))
    assert isinstance(wait, Wait)
    assert (wait.kind, wait.duration_ms) == ("human", 800)


def test_a_session_in_the_background_is_never_joined() -> None:
    claude = {"source_request_id": "a", "child_session_id": "B", "execution_mode": "background"}

    (member,) = members(
        dynamo_request("a", 0, [1], session="A", asked=[("t", "Task")]),
        dynamo_tool("t", "A", 110, 120, name="Task", claude=claude),
        dynamo_request("b", 130, [5], session="B", parent="A"),
        dynamo_request("c", 400, [1, 2], session="A"),
    )

    assert [type(event) for event in member.trace.events if isinstance(event, ParallelStart | ParallelEnd)] == [
        ParallelStart
    ]


def test_a_request_without_hashes_may_begin_like_anything() -> None:
    (member,) = members(
        dynamo_request("a", 0, [1], session="A"), dynamo_request("b", 200, None, session="A", input_tokens=50)
    )

    assert [call.prefix for call in member.trace.calls()] == [
        Prefix(None, 0, "blocks"),
        Prefix(None, 0, "opaque", low=0, high=50),
    ]


def test_choices_of_one_request_are_calls_of_one_prompt_that_share_the_output() -> None:
    metadata = {"finish_reason": "stop", "choices": [{"choice_index": 0}, {"choice_index": 1}, {"choice_index": 2}]}

    (member,) = members(
        dynamo_request("a", 0, [1, 2], tail=1, out=7, session="A", finish_reason_metadata=metadata),
        dynamo_request("b", 300, [1], session="A"),
    )

    calls = list(member.trace.calls())
    assert [(call.completion_tokens, call.request, call.completion_tokens_source) for call in calls] == [
        (3, 0, "estimate"),
        (2, 0, "estimate"),
        (2, 0, "estimate"),
        (5, None, None),
    ]
    assert prefixes(member) == [(None, 0), (0, 5), (0, 5), (0, 4)]
    assert member.ranks == (0, 1, 2, 3)


def test_what_is_lost_or_approximated_is_counted() -> None:
    assert counted(
        dynamo_request("a", 0, [1], session="A", asked=[("t", "ls")]),
        dynamo_request("b", 50, [1, 2], out=None, session="A"),
        dynamo_request("c", 60, None, session="A", input_tokens=3),
        dynamo_request("d", 70, None, session="A"),
        dynamo_request("e", 300, [1]),
        dynamo_tool("u", "A", 5, 5, kind="tool_start"),
        dynamo_tool("v", "A", 9, 4),
        dynamo_tool("w", "nobody", 1, 4),
        dynamo_body("a", 3, "text"),
        dynamo_request("f", 400, [9], context={"session_id": "B", "agent_headers": {}}),
    ) == {
        module.LENGTHS: 5,
        module.TIMES: 5,
        module.OUTPUTS: 5,
        module.SERVER: 5,
        module.DOMAINS: 5,
        module.FINISH: 5,
        module.PREFIXES: 4,
        module.SHARED: 2,
        module.NO_PROMPT: 1,
        module.OPAQUE: 1,
        module.NO_OUTPUT: 1,
        module.INFERRED: 1,
        module.OVERLAPS: 2,
        module.UNFINISHED: 1,
        module.BACKWARD: 1,
        module.STRAY_TOOLS: 1,
        module.BODIES: 1,
        module.HEADERS: 1,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.READ_ASPECTS)


def test_unknown_keys_are_told_and_nothing_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        members(dynamo_request("a", 0, session="A", secret="s3cret"))

    assert caplog.messages == ["x: 1 x unknown field (dropped)"]


@pytest.mark.parametrize(
    ("name", "told"), [("t.000003.jsonl.gz", True), ("t.000003.jsonl", True), ("t.jsonl.gz", False)]
)
def test_a_segment_of_a_rotated_trace_is_told(name: str, told: bool, caplog: pytest.LogCaptureFixture) -> None:
    read(Source.of_bytes(dynamo(dynamo_request("a", 0)), name), Fidelity())

    assert ("segment of a rotated trace" in caplog.text) == told


@pytest.mark.parametrize(
    "data",
    [
        dynamo(dynamo_body("a", 0, "text"), dynamo_request("a", 0)),
        dynamo(dynamo_tool("t", "s", 0, 1), dynamo_request("a", 0)),
        b"\n \n" + json.dumps(dynamo_request("a", 0)).encode(),
        json.dumps(dict(reversed(dynamo_request("a", 0).items()))).encode(),
        gzip.compress(dynamo(dynamo_request("a", 0)), mtime=0),
    ],
)
def test_a_file_is_known_whatever_its_first_record_and_the_order_of_keys(data: bytes) -> None:
    known, found = read_source(Source.of_bytes(data))

    assert (known.name, len(found)) == ("dynamo", 1)


def test_a_newer_schema_is_known_and_refused_by_name() -> None:
    data = dynamo(dynamo_request("a", 0)).replace(b"trace.v1", b"trace.v2")

    with pytest.raises(TraceError, match=r"x:1: event.schema: expected 'dynamo.request.trace.v1' or"):
        read_source(Source.of_bytes(data, "x"))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([dynamo_request("a", 0, None)], "x: expected requests with the length of their prompt, found none"),
        ([dynamo_body("a", 0, "t")], "x: expected requests with the length of their prompt, found none"),
        (
            [
                dynamo_request("a", 0),
                dynamo_request("b", 1, replay={"trace_block_size": 9, "input_length": 9, "input_sequence_hashes": [1]}),
            ],
            "x:2: request.replay.trace_block_size: expected 4 as on line 1, found 9",
        ),
        (
            [dynamo_request("a", 0, session="A", parent="B"), dynamo_request("b", 0, session="B", parent="A")],
            "x:1: agent_context: expected a session that nobody started, found a circle of parents",
        ),
        (
            [dynamo_request(str(i), i, session=str(i), parent=str(i + 1)) for i in range(80)],
            "x: expected sessions nested at most 64 deep, found more",
        ),
    ],
)
def test_damage_between_records_is_told(records: list[Json], expected: str) -> None:
    with pytest.raises(TraceError) as caught:
        members(*records)

    assert str(caught.value) == expected


def test_no_text_of_the_file_is_in_the_traces(caplog: pytest.LogCaptureFixture) -> None:
    canary = "CANARY"
    context = {
        "session_id": f"{canary}-s",
        "parent_session_id": f"{canary}-p",
        "agent_headers": {f"{canary}-h": f"{canary}-v"},
        "input_trigger": f"{canary}-i",
        "compaction": {"reason": f"{canary}-r"},
    }
    asked = [(f"{canary}-t", f"{canary}-tool")]
    found = members(
        dynamo_request(
            f"{canary}-r", 0, [1], context=context, asked=asked, model=f"{canary}-m", x_request_id=f"{canary}-x"
        ),
        dynamo_tool(f"{canary}-t", f"{canary}-s", 100, 200, name=f"{canary}-tool", error_type=f"{canary}-e"),
        dynamo_request(f"{canary}-r2", 300, [1, 2], context=context, io_text={"input": canary}, CANARY=canary),
        dynamo_body(f"{canary}-r2", 300, canary),
    )

    written = b"".join(dumps(member.trace) for member in found)
    assert b"canary" not in written.lower()
    assert "canary" not in caplog.text.lower()
    assert not any("canary" in member.name.lower() for member in found)


RUN = [
    dynamo_request("a", 1000, [1, 2], session="A", asked=[("t", "Task"), ("u", "ls")]),
    dynamo_tool("t", "A", 1100, 1100, kind="tool_start", name="Task"),
    dynamo_tool("u", "A", 1110, 1150, name="ls"),
    dynamo_request("b", 1200, [1, 7], tail=3, session="B", parent="A", ttft_ms=5.0),
    dynamo_request("c", 1310, [1, 7, 8], session="B", parent="A"),
    dynamo_tool("t", "A", None, 1500, name="Task", duration_ms=390.5),
    dynamo_request("d", 1600, [1, 2, 3], session="A"),
    dynamo_request(
        "e", 1650, [1, 2, 3], context={"session_id": "run", "trajectory_id": "x", "parent_trajectory_id": "y"}
    ),
    dynamo_request("f", 1700, [1]),
    dynamo_request("g", 1900, None, session="A", input_tokens=90, finish_reason_metadata={"choices": [{}, {}]}),
    dynamo_body("a", 1650, "text"),
]
EDITS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=4)


@given(EDITS)
def test_whatever_is_changed_in_a_file_it_is_traces_or_one_clear_error(edits: list[tuple[int, int]]) -> None:
    records = json.loads(json.dumps(RUN))
    for which, value in edits:
        places = every_place(records)
        replaced(places[which % len(places)], value)

    error = read_or_told(read, dynamo(*records))

    assert not error or error.startswith("x:")
    assert "\n" not in error
