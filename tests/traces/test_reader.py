from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from token_worlds import World, trace_of, worlds

from rotoscope.testing import make_trace
from rotoscope.traces import (
    Call,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceError,
    Wait,
    dumps,
    load,
    loads,
    save,
)
from rotoscope.traces.reader import kind_of

TRACE = Trace(
    trace_id="0123456789abcdef",
    campaign="fedcba9876543210",
    token_source="usage",
    volatile="masked",
    output_matches=1,
    shared_prefixes=(SharedPrefix("s0", "system", 10), SharedPrefix("s1", "group", 12, SharedPrefixLink("s0", 8))),
    events=(
        Message(conversation_id=0, role="system", message_index=0, tokens=10, system_prompt_id="s0"),
        Call(
            call=0,
            conversation_id=0,
            message_index=1,
            prompt_tokens=12,
            completion_tokens=3,
            reasoning_tokens=1,
            prefix=Prefix("s0", 10, "text"),
            tool_calls=("tool01",),
            at_ms=0,
            duration_ms=2.5,
        ),
        ToolCall(tool_call_id="t0", tool_name="tool01", duration_ms=5.0, call=0, at_ms=2.5, time_source="gap"),
        ParallelStart(region=0, num_branches=2),
        Call(
            call=1,
            conversation_id=1,
            message_index=1,
            prompt_tokens=20,
            completion_tokens=0,
            prefix=Prefix(0, 15, "text", 12, 15),
            branch=(0, 1),
            branch_path=(1,),
            aux=True,
        ),
        Wait(kind="human", duration_ms=7, branch=(0, 1), branch_path=(1,)),
        ParallelEnd(region=0),
        Embedding(prompt_tokens=4),
    ),
)
DATA = dumps(TRACE)


def test_load_after_save_is_identity(tmp_path: Path) -> None:
    save(TRACE, tmp_path / "one.trace.json")

    assert load(tmp_path / "one.trace.json") == TRACE
    assert [path.name for path in tmp_path.iterdir()] == ["one.trace.json"]


@given(worlds())
def test_any_trace_survives_its_file(world: World) -> None:
    trace = trace_of(world)

    assert loads(dumps(trace)) == trace
    assert dumps(loads(dumps(trace))) == dumps(trace)


def test_one_event_stands_on_one_line() -> None:
    lines = DATA.decode().splitlines()

    assert sum(line.startswith(' {"event_type"') for line in lines) == len(TRACE.events)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("damage", "by", "message"),
    [
        (b'"version":1', b'"version":2', "format.version: version 2 is newer than 1"),
        (b'"version":1', b'"version":true', "format.version: expected a version from 1"),
        (b'"version":1', b'"version":1,"more":1', "format.more: unknown field"),
        (b'"volatile"', b'"volatil"', "volatil: unknown field, did you mean 'volatile'?"),
        (b'"masked"', b'"veiled"', "volatile: expected 'sent' or 'masked'"),
        (b'"campaign": "f', b'"campaign": "x', "campaign: expected"),
        (b'"at_ms":0', b'"at":0', "event 1: at: unknown field"),
        (b'"at_ms":0', b'"at_ms":NaN', "event 1: at_ms: expected a finite number, found nan (line 14)"),
        (b'"at_ms":0', b'"at_ms":-1', "event 1: at_ms: expected greater than or equal to 0, found -1"),
        (b'"at_ms":0', b'"at_ms":"soon"', "event 1: at_ms: expected a valid number, found a string"),
        (b'"at_ms":0', b'"at_ms":1e308', "event 1: at_ms: expected less than or equal to 1000000000000, found 1e+308"),
        (
            b'"prompt_tokens":12',
            b'"prompt_tokens":2147483648',
            "event 1: prompt_tokens: expected less than or equal to 2147483647, found 2147483648",
        ),
        (b'"prompt_tokens":12', b'"prompt_tokens":-12', "event 1: prompt_tokens: expected greater than 0, found -12"),
        (b'"prompt_tokens":12', b'"prompt_tokens":0', "event 1: prompt_tokens: expected greater than 0, found 0"),
        (b'"prompt_tokens":12', b'"prompt_tokens":12.0', "event 1: prompt_tokens: expected a valid integer"),
        (b'"prompt_tokens":12,', b"", "event 1: prompt_tokens: required, but not there"),
        (b'"reasoning_tokens":1', b'"reasoning_tokens":4', "event 1: reasoning_tokens: expected at most the 3"),
        (b'"tokens":15', b'"tokens":16', "event 4: prefix: expected low <= tokens <= high"),
        (
            b'"tokens":15,"source":"text","low":12,"high":15',
            b'"tokens":16,"source":"text"',
            "of the stream 0, found 16",
        ),
        (b'"prompt_tokens":20', b'"prompt_tokens":14', "event 4: prefix.tokens: expected at most the 14 prompt_tokens"),
        (b'"of":0,', b'"of":1,', "event 4: prefix.of: expected a call before call 1, found call 1"),
        (b'"of":0,', b'"of":7,', "event 4: prefix.of: expected the number of a call in this trace, found 7"),
        (b'"of":0,', b'"of":null,', "event 4: prefix.of: expected null exactly when tokens is 0"),
        (
            b'"prefix":{"of":"s0","tokens":10',
            b'"prefix":{"of":"s9","tokens":10',
            "event 1: prefix.of: expected the id of a shared prefix, found 's9'",
        ),
        (b'"call":1,', b'"call":1,"domain":1,', "event 4: prefix.of: expected a call of cache domain 1"),
        (b'"call":1,', b'"call":0,', "event 4: call: expected a number of its own, found 0, which event 1 has"),
        (b'"branch":[0,1]', b'"branch":[0,2]', "event 4: branch: expected one of the 2 branches of region 0"),
        (b'"branch":[0,1]', b'"branch":[3,1]', "event 4: branch: expected a branch of a region that has started"),
        (b'"branch":[0,1]', b'"branch":[0,1,2]', "event 4: branch: expected"),
        (b'"parallel_end","branch_path":[],"region":0', b'"parallel_end","region":5', "join without fork"),
        (b'"parallel_start"', b'"parallel_begin"', "event 3: event_type: expected one of drop_kv_cache"),
        (b'"tool_call_id":"t0"', b'"tool_call_id":"call_x1"', "event 2: tool_call_id: expected"),
        (b'"id":"s1"', b'"id":"s0"', "shared_prefixes.s0: expected an id of its own"),
        (b'"prefix":{"of":"s0","tokens":8}', b'"prefix":{"of":"s0","tokens":11}', "shared_prefixes.s1.prefix.tokens"),
        (b'"prefix":{"of":"s0","tokens":8}', b'"prefix":{"of":"s4","tokens":8}', "shared_prefixes.s1.prefix.of"),
        (b'"token_source": "usage"', b'"token_source": "somebody said"', "token_source: expected"),
        (b'"system_prompt_id":"s0"', b'"system_prompt_id":"s3"', "event 0: system_prompt_id: expected the id"),
    ],
)
def test_each_kind_of_damage_is_named_with_its_place(damage: bytes, by: bytes, message: str) -> None:
    assert damage in DATA

    with pytest.raises(TraceError) as caught:
        loads(DATA.replace(damage, by, 1), path="x.trace.json")

    assert str(caught.value).startswith("x.trace.json: ")
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_prefix_granularity_binds_every_prefix() -> None:
    data = DATA.replace(b'"token_source"', b'"prefix_granularity": 4,\n"token_source"')

    with pytest.raises(TraceError, match=r"event 1: prefix\.tokens: expected a multiple of prefix_granularity 4"):
        loads(data)


def test_an_event_after_the_join_of_its_branch_is_refused() -> None:
    late = replace(TRACE, events=(*TRACE.events, Wait(kind="think", duration_ms=1, branch=(0, 0))))

    with pytest.raises(TraceError, match=r"event 8: branch: expected no event of branch \[0, 0\] after its join"):
        loads(dumps(late))


def test_a_file_that_ends_anywhere_is_truncated_or_no_trace() -> None:
    for length in range(len(DATA) - 2):
        with pytest.raises(TraceError, match=r"truncated|empty file"):
            loads(DATA[:length])


def test_random_damage_never_ends_in_another_error() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        data = bytearray(DATA)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice(b'{}[]",:0123456789-eNaI\x00\xff')
        with contextlib.suppress(TraceError):
            loads(bytes(data))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found an empty file"),
        (b"  \n", "found an empty file"),
        (b"PK\x03\x04", "expected a Rotoscope trace"),
        (b'{"trace_id": "x", "events": []}', "expected a Rotoscope trace"),
        (b"[" * 100_000, "expected a Rotoscope trace"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_its_beginning(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)

    with pytest.raises(TraceError, match=message):
        load(path)


def test_two_hundred_megabytes_of_something_else_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(200_000_000)

    with pytest.raises(TraceError, match="expected a Rotoscope trace"):
        load(path)


def test_deep_nesting_is_refused() -> None:
    data = DATA.replace(b'"events": [', b'"events": ' + b"[" * 100_000)

    with pytest.raises(TraceError, match=r"nested too deeply|truncated|not JSON"):
        loads(data)


def test_a_number_without_end_is_not_shown() -> None:
    data = dumps(make_trace()).replace(b'"prompt_tokens":100', b'"prompt_tokens":' + b"9" * 1000)

    with pytest.raises(TraceError, match=r"prompt_tokens: .*, found a number [(]line 12[)]$"):
        loads(data)


def test_a_missing_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        load(tmp_path / "none.trace.json")


def test_text_of_somebody_is_never_shown() -> None:
    with pytest.raises(TraceError) as caught:
        loads(DATA.replace(b'"role":"system"', b'"role":"sk-secret"'))

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [({}, "an object"), ([], "a list"), ("x", "a string"), (True, "a boolean"), (None, "nothing"), (1, "a number")],
)
def test_the_kind_of_a_value_is_said_without_showing_it(value: object, kind: str) -> None:
    assert kind_of(value) == kind
