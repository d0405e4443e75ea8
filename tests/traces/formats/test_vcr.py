"""The files here are made by hand from the form that `vcr_records.py` names; none was captured."""

from __future__ import annotations

import gzip
import json
import logging

import pytest
from foreign_events import vcr, vcr_record
from foreign_traces import Json
from format_damage import every_place, read_or_told, replaced
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import Call, Prefix, TraceError, Wait, dumps, loads, normalise
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import vcr as module
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.vcr import read
from rotoscope.traces.model import SharedPrefix


def members(*records: Json, block_size: int | None = 4, fidelity: Fidelity | None = None) -> list[Member]:
    found = read(Source.of_bytes(vcr(*records, block_size=block_size), "x"), fidelity or Fidelity())
    for member in found:
        assert loads(dumps(member.trace)) == member.trace
        assert normalise(member.trace) == member.trace
    return found


def test_sessions_are_inferred_and_share_what_their_hashes_say() -> None:
    first, second = members(
        vcr_record(300, [1, 2, 3], tail=1),
        vcr_record(110, [1, 8], tail=3),
        vcr_record(100, [1, 2]),
        vcr_record(400, [1, 8, 9]),
    )

    assert (first.ranks, second.ranks) == ((0, 2), (1, 3))
    assert (first.start_ms, second.start_ms) == (0, 10)
    assert first.trace.shared_prefixes == second.trace.shared_prefixes == (SharedPrefix("s0", "group", 4),)
    assert [(c.prefix.of, c.prefix.tokens) for c in first.trace.calls()] == [("s0", 4), (0, 8)]
    assert [(c.prefix.of, c.prefix.tokens) for c in second.trace.calls()] == [("s0", 4), (0, 8)]
    assert (first.trace.prefix_granularity, first.trace.outputs) == (4, "unknown")


def test_a_call_has_all_that_its_record_says_and_the_rest_is_a_wait() -> None:
    (member,) = members(vcr_record(0, [1], cached_tokens=3), vcr_record(100, [1, 2], finish_reason="abort"))

    first, wait, second = member.trace.events
    assert isinstance(first, Call)
    assert isinstance(wait, Wait)
    assert isinstance(second, Call)
    assert (first.prompt_tokens, first.completion_tokens, first.cached_tokens) == (4, 3, 3)
    assert (first.at_ms, first.ttft_ms, first.duration_ms) == (0, 20, 30)
    assert (wait.duration_ms, second.at_ms, second.finish_reason) == (70, 100, "cancelled")


def test_without_arrivals_there_is_no_clock_and_the_order_is_that_of_the_file() -> None:
    fidelity = Fidelity()

    first, second = members(vcr_record(5, [1, 2]), vcr_record(None, [9]), vcr_record(1, [1, 2, 3]), fidelity=fidelity)

    assert (first.ranks, second.ranks, first.start_ms) == ((0, 2), (1,), None)
    assert [(type(event), event.at_ms) for event in first.trace.events if isinstance(event, Call | Wait)] == [
        (Call, None),
        (Call, None),
    ]
    assert fidelity.counts[module.NO_CLOCK] == 3


def test_a_request_without_hashes_may_begin_like_anything() -> None:
    (member,) = members(vcr_record(0, None, tail=50))

    assert next(member.trace.calls()).prefix == Prefix(None, 0, "opaque", low=0, high=50)


@pytest.mark.parametrize(
    ("before", "after", "low"),
    [
        ([], ["a"], None),
        (["a"], ["a"], None),
        (["a"], ["a", "b"], None),
        (["a", "b"], ["a"], None),
        (["a"], [], None),
        (["a"], ["b"], 0),
        (["a", "b"], ["a", "c"], 0),
    ],
)
def test_hashes_know_no_images_so_other_ones_leave_nothing_sure(
    before: list[str], after: list[str], low: int | None
) -> None:
    (member,) = members(vcr_record(0, [1, 2], mm_hashes=before), vcr_record(100, [1, 2, 3], mm_hashes=after))

    prefix = list(member.trace.calls())[1].prefix
    assert (prefix.of, prefix.tokens, prefix.low) == (0, 8, low)


def test_what_sessions_share_is_not_sure_with_images() -> None:
    first, second = members(vcr_record(0, [1, 2], mm_hashes=["a"]), vcr_record(1, [1, 3], mm_hashes=["a"]))

    assert [next(member.trace.calls()).prefix for member in (first, second)] == [
        Prefix("s0", 4, "blocks", low=0, high=4)
    ] * 2


def test_what_is_lost_or_approximated_is_counted() -> None:
    fidelity = Fidelity()

    members(
        vcr_record(0, [1, 2], mm_hashes=["a"], output_token_ids=[1, 2, 3]),
        vcr_record(10, [1, 2, 3], mm_hashes=["b"], itl_ms=None, finish_reason=None),
        vcr_record(60, None, tail=9),
        vcr_record(70, None, prompt_tokens=0),
        vcr_record(80, [1, 7]),
        fidelity=fidelity,
    )

    assert dict(fidelity.counts) == {
        module.LENGTHS: 4,
        module.CACHED: 4,
        module.OUTPUTS: 4,
        module.GAPS: 4,
        module.TIMES: 4,
        module.PREFIXES: 3,
        module.OPAQUE: 1,
        module.DURATIONS: 3,
        module.NO_DURATIONS: 1,
        module.FINISH: 3,
        module.SESSIONS: 3,
        module.SHARED: 2,
        module.IMAGES: 2,
        module.OVERLAPS: 1,
        module.NO_PROMPT: 1,
        module.TOKEN_IDS: 1,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.READ_ASPECTS)


@pytest.mark.parametrize(
    "data",
    [
        vcr(vcr_record(0, [1])),
        vcr(vcr_record(0, None, tail=3), block_size=None),
        b"\n" + vcr(dict(reversed(vcr_record(0, [1]).items()))),
        gzip.compress(vcr(vcr_record(0, [1])), mtime=0),
    ],
)
def test_a_file_is_known_with_and_without_its_meta_line(data: bytes) -> None:
    known, found = read_source(Source.of_bytes(data))

    assert (known.name, len(found)) == ("vcr", 1)


def test_a_meta_line_of_something_else_is_not_known() -> None:
    with pytest.raises(TraceError, match="expected a trace"):
        read_source(Source.of_bytes(b'{"meta": {}}\n{"prompt_tokens": 5}\n', "x"))


def test_a_file_without_prompts_is_told() -> None:
    with pytest.raises(TraceError, match="x: expected requests with a prompt, found none"):
        members()


def test_no_text_of_the_file_is_in_the_traces(caplog: pytest.LogCaptureFixture) -> None:
    record = vcr_record(0, [1], mm_hashes=["CANARY"], output_token_ids=[123454321, 5, 6], CANARY="CANARY")
    data = b'{"meta": {"block_size": 4, "model": "CANARY", "CANARY": "CANARY"}}\n' + vcr(record, block_size=None)

    with caplog.at_level(logging.INFO):
        (member,) = read(Source.of_bytes(data, "x"), Fidelity())

    assert b"canary" not in dumps(member.trace).lower()
    assert b"123454321" not in dumps(member.trace)
    assert "canary" not in caplog.text.lower()


FILE = [
    vcr_record(0, [1, 2], tail=1),
    vcr_record(10.5, [1, 7], mm_hashes=["i"], cached_tokens=4),
    vcr_record(100, [1, 2, 3], output_token_ids=[5, 6, 7]),
    vcr_record(110, [1, 7, 8], tail=2, mm_hashes=["j"], itl_ms=None, itl_summary={"mean_ms": 3.5, "count": 2}),
    vcr_record(5, None, tail=9),
]
EDITS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=4)


@given(EDITS)
def test_whatever_is_changed_in_a_file_it_is_traces_or_one_clear_error(edits: list[tuple[int, int]]) -> None:
    lines = [{"meta": {"block_size": 4, "model": "m"}}, *json.loads(json.dumps(FILE))]
    for which, value in edits:
        places = every_place(lines)
        replaced(places[which % len(places)], value)

    error = read_or_told(read, vcr(*lines, block_size=None))

    assert not error or error.startswith("x:")
    assert "\n" not in error
