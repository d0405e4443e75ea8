from __future__ import annotations

import json
from typing import Any

import pytest
from format_damage import read_or_told
from format_samples import SAMPLES
from hypothesis import given
from hypothesis import strategies as st
from mooncake_files import Json, lines
from mooncake_plays_files import HEADER, edge, read, request

from rotoscope.traces import TraceError, Wait
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_agentic import IN_LINE, OTHER_WAITS
from rotoscope.traces.formats.mooncake_plays import BARRIERS, DISPATCHED, EARLIEST, PLAYS, RECORDED, UNEVEN, read_plays
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import ParallelEnd, ParallelStart, Trace

RUN = [
    request("p1", "root", 1, 2, at_ms=0, took_ms=100),
    request("p2", "root", 1, 2, 9, at_ms=500, took_ms=5, after=[edge("p1", 400), edge("c2", 50, relation="join")]),
    request("c1", "child", 1, 3, at_ms=40, took_ms=60, after=[edge("p1", 40, "dispatch", "spawn")]),
    request("c2", "child", 1, 3, 4, at_ms=200, took_ms=250, after=[edge("c1", 100)]),
]


def shape(trace: Trace) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for event in trace.events:
        match event:
            case ParallelStart():
                found.append(("fork", event.region, event.num_branches))
            case ParallelEnd():
                found.append(("join", event.region))
            case Wait():
                found.append((event.kind, event.duration_ms, event.branch))
    return found


def test_a_play_is_a_run_whose_sessions_are_branches_that_fork_and_join_as_its_edges_say() -> None:
    fidelity = Fidelity()

    [member] = read(*RUN, fidelity=fidelity)

    calls = list(member.trace.calls())
    assert [(call.at_ms, call.duration_ms, call.branch) for call in calls] == [
        (0.0, 100.0, None),
        (40.0, 60.0, (0, 0)),
        (200.0, 250.0, (0, 0)),
        (500.0, 5.0, None),
    ]
    assert shape(member.trace) == [
        ("fork", 0, 1),
        ("think", 100.0, (0, 0)),
        ("join", 0),
        ("think", 50.0, None),
    ]
    assert (fidelity.counts[DISPATCHED], fidelity.counts[UNEVEN], fidelity.counts[RECORDED]) == (1, 1, 4)
    assert fidelity.counts[PLAYS] == 1
    assert fidelity.counts[EARLIEST] == 0


def test_prefixes_are_in_blocks_of_the_header_and_the_same_ids_mean_the_same_in_all_plays() -> None:
    first, second = read(*RUN, request("q", "root", 1, 2, play_id="q"))

    assert [call.prefix.tokens for call in first.trace.calls()] == [128, 64, 128, 128]
    assert [call.prefix.tokens for call in second.trace.calls()] == [128]
    assert first.trace.prefix_granularity == 64


def test_sessions_of_two_plays_may_have_one_name() -> None:
    members = read(request("a", "s", 1), request("b", "s", 2, play_id="q"))

    assert [[call.branch for call in member.trace.calls()] for member in members] == [[None], [None]]


def test_plays_that_start_together_stand_in_the_order_of_their_ordinals() -> None:
    members = read(
        request("a", "s", 1, play_id="late", source_play_ordinal=1),
        request("b", "s", 2, 3, play_id="early", source_play_ordinal=0),
    )

    assert [[call.prompt_tokens for call in member.trace.calls()] for member in members] == [[128], [64]]


def test_what_nothing_started_begins_with_its_play() -> None:
    [member] = read(request("a", "s", 1), request("b", "t", 2, at_ms=30))

    assert shape(member.trace) == [("fork", 0, 1), ("agent", 30.0, (0, 0))]


def test_a_time_that_is_not_said_is_the_earliest_that_edges_allow() -> None:
    fidelity = Fidelity()

    [member] = read(
        request("a", "s", 1, took_ms=20),
        request("b", "s", 2, after=[edge("a", 5)]),
        request("c", "t", 3, after=[edge("b", 7, "dispatch", "spawn")]),
        fidelity=fidelity,
    )

    assert [call.at_ms for call in member.trace.calls()] == [0.0, 25.0, 32.0]
    assert fidelity.counts[EARLIEST] == 2


def test_an_answer_whose_time_is_not_said_has_none_though_a_delay_follows_it() -> None:
    [member] = read(request("a", "s", 1), request("b", "s", 2, at_ms=50, after=[edge("a", 5)]))

    assert [call.duration_ms for call in member.trace.calls()] == [None, None]


def test_an_edge_of_a_barrier_joins_where_it_can_and_is_counted() -> None:
    fidelity = Fidelity()

    [member] = read(
        request("a", "s", 1, took_ms=10),
        request("b", "t", 2, at_ms=10, took_ms=10, after=[edge("a", 0, relation="spawn")]),
        request("c", "s", 1, 3, at_ms=50, after=[edge("a", 40), edge("b", 0, relation="replay_barrier")]),
        fidelity=fidelity,
    )

    assert shape(member.trace) == [("fork", 0, 1), ("join", 0), ("think", 40.0, None)]
    assert fidelity.counts[BARRIERS] == 1


def test_what_a_run_cannot_say_is_counted() -> None:
    fidelity = Fidelity()

    read(
        request("a", "s", 1, at_ms=0),
        request("b", "s", 1, 2, at_ms=10),
        request("c", "t", 3, at_ms=20, after=[edge("b", 1, relation="spawn")]),
        request("d", "u", 4, at_ms=30, after=[edge("b", 1, relation="spawn")]),
        request("e", "u", 4, 5, at_ms=40, after=[edge("d"), edge("c", 0, relation="join")]),
        fidelity=fidelity,
    )

    assert (fidelity.counts[IN_LINE], fidelity.counts[OTHER_WAITS]) == (1, 1)


def test_models_are_cache_domains() -> None:
    [member] = read(request("a", "s", 1), request("b", "s", 1, after=[edge("a")], model="n"))

    assert [(call.domain, call.prefix.tokens) for call in member.trace.calls()] == [(0, 0), (1, 0)]


def test_the_file_is_told_by_its_header() -> None:
    found, _ = read_source(Source.of_bytes(lines(HEADER, *RUN)))

    assert found.name == "mooncake-agentic-v2"


def test_content_and_names_are_dropped() -> None:
    [member] = read(request("secret1", "secret2", 1, play_id="secret3", model="secret4", output_token_ids=[987654321]))

    assert "secret" not in repr(member)
    assert "987654321" not in repr(member)


def changed(**fields: object) -> Json:
    return {key: value for key, value in {**HEADER, **fields}.items() if value is not None}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (changed(schema="dynamo.secret"), r"^x:1: schema: expected 'dynamo.agentic_mooncake', found another"),
        (changed(schema=5), "schema: expected a string"),
        (changed(schema=None), "schema: required, but not there"),
        (changed(version=3), "version: expected 2, found 3: a newer"),
        (changed(version=1), "version: expected 2, found 1"),
        (changed(version="2"), "version: expected an integer"),
        (changed(version=None), "version: required"),
        (changed(block_size=0), "block_size: expected an integer from 1"),
        (changed(block_size=64.0), "block_size: expected an integer"),
        (changed(hash_id_scope="global"), "hash_id_scope: expected 'local', found another one"),
        (changed(source=None), "source: required"),
        (changed(source="weka"), "source: expected an object"),
        (changed(source={"format": "weka"}), "source.digest: required"),
        (changed(source={"format": "weka", "digest": ""}), "source.digest: expected a name"),
        ([], "expected an object"),
    ],
)
def test_a_damaged_header_is_one_clear_error(header: object, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        read(*RUN, header=header)

    assert "secret" not in str(caught.value)


A = request("a", "s", 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "expected requests after the header"),
        ([A, request("a", "s", 2)], "^x:3: request_id: expected an id of its own, found that of line 2"),
        ([request("a", "s", 1, after=[edge("b")])], r"dependencies\[0\].request_id.*found none that is known"),
        ([request("a", "s", 1, after=[edge("a")])], r"dependencies\[0\].request_id.*found itself"),
        ([A, request("b", "s", 1, play_id="q", after=[edge("a")])], "found that of line 2 in another one"),
        (
            [request("a", "s", 1, after=[edge("b")]), request("b", "s", 1, after=[edge("a")])],
            "^x:2: dependencies: expected requests that are sent before it, found a circle",
        ),
        ([A, request("b", "s", 1, after=[edge("a", -1)])], r"dependencies\[0\].delay_ms: expected a number from 0"),
        ([A, request("b", "s", 1, after=[edge("a", "1")])], "delay_ms: expected a number, found"),
        ([A, request("b", "s", 1, after=[edge("a", trigger="end")])], "trigger: expected one of dispatch, completion"),
        ([A, request("b", "s", 1, after=[edge("a", relation="fork")])], "relation: expected one of sequence, spawn"),
        ([A, request("b", "s", 1, after=[{"request_id": "a"}])], "trigger: required"),
        ([A, request("b", "s", 1, after="a")], "dependencies: expected a list"),
        ([A, request("b", "s", 1, after=["a"])], r"dependencies\[0\]: expected an object"),
        (
            [request("a", "s", 1, hash_ids=[1, 2])],
            "hash_ids: expected 1, as many blocks of 64 as 64 tokens have, found 2",
        ),
        ([request("a", "s", 1, hash_ids=[])], "hash_ids: expected 1"),
        ([request("a", "s", 1, hash_ids=None)], "hash_ids: required"),
        ([request("a", "s", 1, hash_ids=[1.5])], r"hash_ids\[0\]: expected an integer"),
        ([request("a", "s", 1, input_length=0)], "input_length: expected an integer from 1"),
        ([request("a", "s", 1, output_length=-1)], "output_length: expected an integer from 0"),
        ([request("a", "s", 1, at_ms=None)], "not_before_ms: required"),
        ([request("a", "s", 1, at_ms=-1)], "not_before_ms: expected a number from 0"),
        ([request("a", "s", 1, took_ms=-1)], "recorded_api_time_ms: expected a number from 0"),
        ([request("a", "s", 1, play_id="")], "play_id: expected a name, found an empty string"),
        ([request("a", "", 1)], "session_id: expected a name"),
        ([request(7, "s", 1)], "request_id: expected a string"),
        ([request("a", "s", 1, model="")], "model: expected a name"),
        ([request("a", "s", 1, model=None)], "model: required"),
        ([request("a", "s", 1, source_play_ordinal=-1)], "source_play_ordinal: expected an integer from 0"),
        ([HEADER], "request_id|play_id"),
        ([5], "expected an object"),
    ],
)
def test_a_damaged_row_is_one_clear_error(rows: list[object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(*rows)


def test_an_edge_may_lead_from_a_request_further_down() -> None:
    [member] = read(request("b", "s", 1, 2, after=[edge("a")]), request("a", "s", 1))

    assert [call.prompt_tokens for call in member.trace.calls()] == [64, 128]


def test_rows_without_their_header_are_refused_by_name() -> None:
    with pytest.raises(TraceError, match="play_id: of agentic Mooncake version 2, whose header is not there"):
        read_source(Source.of_bytes(lines(*RUN)))


@pytest.mark.parametrize("end", [b'{"request_id": "z", "pl', b"\x00\xff\x80\n", b"\x1f\x8b\x08"])
def test_a_truncated_line_or_binary_is_an_error_of_its_line(end: bytes) -> None:
    with pytest.raises(TraceError, match=r"^x:3: "):
        read_plays(Source.of_bytes(lines(HEADER, A) + end, "x"), Fidelity())


def test_an_empty_file_is_an_error() -> None:
    with pytest.raises(TraceError, match="expected a header line"):
        read_plays(Source.of_bytes(b"\n", "x"), Fidelity())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(["r0", "r1", "a", "spawn", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["request_id", "delay_ms"]), inner),
    max_leaves=4,
)


@given(st.data())
def test_any_change_of_a_file_gives_traces_or_one_clear_error(data: st.DataObject) -> None:
    rows = [json.loads(line) for line in SAMPLES["mooncake-agentic-v2"][0].splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        changed_row = data.draw(st.sampled_from(rows))
        changed_row[data.draw(st.sampled_from(sorted(changed_row)))] = data.draw(VALUES)

    read_or_told(read_plays, b"".join(json.dumps(fields).encode() + b"\n" for fields in rows))
