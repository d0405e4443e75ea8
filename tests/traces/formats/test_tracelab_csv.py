from __future__ import annotations

import pytest
from foreign_events import CSV_HEADER, tracelab_csv
from format_damage import read_or_told
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import Call, ToolCall, TraceError, dumps, loads
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import tracelab_csv as module
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab_csv import read


def members(*rows: str, header: str = CSV_HEADER, fidelity: Fidelity | None = None) -> list[Member]:
    found = read(Source.of_bytes(tracelab_csv(*rows, header=header), "x"), fidelity or Fidelity())
    for member in found:
        assert loads(dumps(member.trace)) == member.trace
    return found


def test_a_row_keeps_a_part_of_the_prompt_and_answer_before_it() -> None:
    (member,) = members("a,0,0,0,512,64,100", "a,0,1,576,128,64,0", "a,0,2,600,10,64,0")

    calls = list(member.trace.calls())
    assert [(call.prompt_tokens, call.completion_tokens) for call in calls] == [(512, 64), (704, 64), (610, 64)]
    assert [(call.prefix.of, call.prefix.tokens, call.prefix.source) for call in calls] == [
        (None, 0, "assumed"),
        (0, 576, "assumed"),
        (1, 600, "assumed"),
    ]


def test_what_is_kept_beyond_what_there_was_is_nobody_elses() -> None:
    fidelity = Fidelity()

    (member,) = members("a,0,0,50,10,5,0", "a,0,1,70,10,5,0", "a,0,2,85,10,5,0", fidelity=fidelity)

    assert [(call.prefix.of, call.prefix.tokens) for call in member.trace.calls()] == [(None, 0), (0, 65), (1, 85)]
    assert fidelity.counts[module.FILLED] == 2


def test_a_wait_is_a_tool_behind_its_answer_and_the_last_one_holds_up_nothing() -> None:
    (member,) = members("a,0,1,0,5,5,70", "a,0,0,0,5,5,30.5")

    assert [type(event) for event in member.trace.events] == [Call, ToolCall, Call]
    tool = member.trace.events[1]
    assert isinstance(tool, ToolCall)
    assert (tool.call, tool.duration_ms) == (0, 30.5)


def test_sessions_follow_one_another_in_the_order_of_their_arrival() -> None:
    first, second = members("b,900,0,0,5,5,0", "a,100.5,0,0,5,5,0", "b,900,1,0,5,5,0")

    assert (first.start_ms, second.start_ms) == (900, 100.5)
    assert (first.ranks, second.ranks) == ((1, 2), (0,))


def test_columns_may_stand_in_any_order_with_the_older_name_and_others() -> None:
    header = "\ufeffid, input_len,output_len,x,round_idx,tool_wait_after_ms,prefix_len"

    (member,) = members("a,9,7,?,0,3,0", "", header=header)

    (call,) = member.trace.calls()
    assert (call.prompt_tokens, call.completion_tokens, member.start_ms) == (9, 7, None)


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.READ_ASPECTS)


def test_no_name_is_kept() -> None:
    (member,) = members("CANARY,0,0,0,9,7,0")

    assert b"canary" not in dumps(member.trace).lower()


DAMAGES = {
    "no rows": (tracelab_csv(), "x: expected rounds, found none"),
    "no column": (tracelab_csv("1", header="session_id"), "x:1: expected a column 'round_idx'"),
    "no session": (
        tracelab_csv(header=CSV_HEADER.replace("session_id", "name")),
        "x:1: expected a column 'session_id'",
    ),
    "two columns of one name": (tracelab_csv(header=f"{CSV_HEADER},round_idx"), "x:1: expected each column once"),
    "too few values": (tracelab_csv("a,0,0"), "x:2: expected 7 values, found 3"),
    "no number": (tracelab_csv("a,0,0,x,9,7,0"), "x:2: prefix_len: expected an integer from 0"),
    "negative": (tracelab_csv("a,0,0,-1,9,7,0"), "x:2: prefix_len: expected an integer from 0"),
    "fraction": (tracelab_csv("a,0,0,1.5,9,7,0"), "x:2: prefix_len: expected an integer from 0"),
    "huge": (tracelab_csv(f"a,0,0,0,{10**30},7,0"), "x:2: input_len: expected an integer from 0"),
    "sum too great": (tracelab_csv("a,0,0,2147483647,1,7,0"), "x:2: input_len: expected a prompt of 1 to"),
    "empty prompt": (tracelab_csv("a,0,0,0,0,7,0"), "x:2: input_len: expected a prompt of 1 to"),
    "endless": (tracelab_csv("a,0,0,0,9,7,inf"), "x:2: tool_wait_after_ms: expected a number from 0"),
    "not a number": (tracelab_csv("a,nan,0,0,9,7,0"), "x:2: arrival_time: expected a number from 0"),
    "no wait": (tracelab_csv("a,0,0,0,9,7,"), "x:2: tool_wait_after_ms: expected a number"),
    "open quote": (tracelab_csv('"a,0,0,0,9,7,0'), "x:2: expected comma-separated values"),
    "binary": (tracelab_csv() + b"\xff\x00", "x: expected UTF-8 text, found byte 0xff"),
}


def test_blank_lines_are_passed_over_wherever_they_stand() -> None:
    plain = tracelab_csv("a,0,0,0,9,7,0", "a,0,1,16,5,2,0")
    header, first, second = plain.splitlines()
    data = b"\n  \n" + header + b"\n" + first + b"\n\n" + second + b"\n   "

    source = Source.of_bytes(data, "x")
    known, found = read_source(source)

    assert known.name == "tracelab-csv"
    assert [member.trace.events for member in found] == [
        member.trace.events for member in read(Source.of_bytes(plain, "x"), Fidelity())
    ]


def test_errors_behind_blank_lines_have_the_line_of_the_file() -> None:
    with pytest.raises(TraceError, match=r"^x:2: expected a column 'round_idx'"):
        read(Source.of_bytes(b"\na,b\n", "x"), Fidelity())


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_told_with_line_and_field(kind: str) -> None:
    data, expected = DAMAGES[kind]

    with pytest.raises(TraceError) as caught:
        read(Source.of_bytes(data, "x"), Fidelity())

    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


CELLS = st.sampled_from(
    ["a", "b", "0", "1", "2", "-1", "1e3", "nan", "inf", "9" * 12, "", '"', '"x"', "\x00", "\u0661", " 3"]
)


@given(st.lists(st.lists(CELLS, min_size=6, max_size=8), max_size=5))
def test_whatever_the_cells_they_are_traces_or_one_clear_error(cells: list[list[str]]) -> None:
    error = read_or_told(read, tracelab_csv(*(",".join(row) for row in cells)))

    assert not error or error.startswith("x:")
    assert "\n" not in error
