from __future__ import annotations

import gzip
import json
import math

import pytest
from foreign_events import vcr, vcr_record
from foreign_traces import Json

from rotoscope.traces import TraceError
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.vcr_records import Records, read_records


def records(*given: Json, block_size: int | None = 4) -> Records:
    return read_records(Source.of_bytes(vcr(*given, block_size=block_size), "x"))


def test_a_record_is_read_with_its_hashes_and_times() -> None:
    (record,) = records(vcr_record(10.5, [7, 8], tail=1, cached_tokens=4, mm_hashes=["i"])).records

    assert (record.prompt_tokens, record.completion_tokens, record.cached_tokens) == (9, 3, 4)
    assert (record.arrival_ms, record.ttft_ms, record.duration_ms) == (10.5, 20, 30)
    assert record.block_ids is not None
    assert (list(record.block_ids), record.images, record.finish_reason) == ([7, 8], ("i",), "stop")


@pytest.mark.parametrize(
    ("more", "duration"),
    [
        ({"itl_ms": [1.5, 2]}, 23.5),
        ({"itl_ms": None, "itl_summary": {"mean_ms": 1.5, "count": 4}}, 26),
        ({"itl_ms": None}, None),
        ({"itl_ms": None, "output_tokens": 1}, 20),
        ({"itl_ms": [], "output_tokens": 0}, 20),
    ],
)
def test_how_long_an_answer_took(more: Json, duration: float | None) -> None:
    assert records(vcr_record(0, [1], **more)).records[0].duration_ms == duration


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("abort", "cancelled"),
        ("error", "error"),
        ("repetition", "unknown"),
        (None, "unknown"),
    ],
)
def test_finish_reasons(given: str | None, reason: str) -> None:
    assert records(vcr_record(0, [1], finish_reason=given)).records[0].finish_reason == reason


def test_a_prompt_without_a_whole_block_has_no_hashes_and_others_without_any_are_unknown() -> None:
    found = records(vcr_record(0, None, tail=3), vcr_record(0, None, tail=4), vcr_record(0, [], tail=2))

    assert [None if record.block_ids is None else list(record.block_ids) for record in found.records] == [[], None, []]


def test_a_meta_line_is_not_needed_without_hashes_and_may_hold_anything() -> None:
    bare = records(vcr_record(0, None, tail=3), block_size=None)
    rich = read_records(
        Source.of_bytes(b'\n{"meta": {"block_size": 4, "secret": "x"}}\n' + vcr(vcr_record(0, [1]), block_size=None))
    )

    assert (bare.block_size, [record.block_ids for record in bare.records]) == (None, [None])
    assert (rich.block_size, len(rich.records), rich.notes.counts) == (4, 1, {})


def test_token_ids_are_counted_and_left() -> None:
    found = records(vcr_record(0, [1], output_token_ids=[123454321, 2, 3]), vcr_record(0, [1]))

    assert found.token_ids == 1
    assert "123454321" not in repr(found)


def test_files_may_be_compressed() -> None:
    assert len(read_records(Source.of_bytes(gzip.compress(vcr(vcr_record(0, [1]))))).records) == 1


DAMAGES: dict[str, tuple[bytes, str]] = {
    "no prompt length": (vcr(vcr_record(0, [1], prompt_tokens=None)), "x:2: prompt_tokens: required, but not there"),
    "no output length": (vcr(vcr_record(0, [1], output_tokens=None)), "x:2: output_tokens: required"),
    "no first token": (vcr(vcr_record(0, [1], ttft_ms=None)), "x:2: ttft_ms: required"),
    "length of another kind": (vcr(vcr_record(0, [1], prompt_tokens="4")), "x:2: prompt_tokens: expected an integer, found a string"),
    "negative": (vcr(vcr_record(0, [1], output_tokens=-1)), "x:2: output_tokens: expected an integer from 0"),
    "huge": (vcr(vcr_record(0, [1], cached_tokens=2**31)), "x:2: cached_tokens: expected an integer from 0"),
    "not a number": (vcr(vcr_record(math.nan, [1])), "x:2: arrival_ms: expected a number from 0"),
    "negative time": (vcr(vcr_record(0, [1], ttft_ms=-1)), "x:2: ttft_ms: expected a number from 0"),
    "gap of another kind": (vcr(vcr_record(0, [1], itl_ms=[1, "2"])), "x:2: itl_ms[1]: expected a number from 0"),
    "negative gap": (vcr(vcr_record(0, [1], itl_ms=[-1])), "x:2: itl_ms[0]: expected a number from 0"),
    "endless gap": (vcr(vcr_record(0, [1], itl_ms=[math.inf])), "x:2: itl_ms[0]: expected a number from 0"),
    "gaps too long in all": (vcr(vcr_record(0, [1], itl_ms=[2e11, 2e11])), "x:2: itl_ms: expected at most 2.5e+11 in all"),
    "mean too long in all": (
        vcr(vcr_record(0, [1], itl_ms=None, itl_summary={"mean_ms": 2e11, "count": 9})),
        "x:2: itl_summary: expected at most 2.5e+11 in all",
    ),
    "summary of another kind": (vcr(vcr_record(0, [1], itl_ms=None, itl_summary=5)), "x:2: itl_summary: expected an object"),
    "no mean": (vcr(vcr_record(0, [1], itl_ms=None, itl_summary={"count": 2})), "x:2: itl_summary.mean_ms: required"),
    "too few hashes": (vcr(vcr_record(0, [1], tail=4)), "x:2: block_hashes: expected 2 hashes for 8 tokens, found 1"),
    "too many hashes": (vcr(vcr_record(0, [1, 2], prompt_tokens=7)), "x:2: block_hashes: expected 1 hashes for 7 tokens, found 2"),
    "negative hash": (vcr(vcr_record(0, [-1])), "x:2: block_hashes: expected integers of 64 bits"),
    "hash of another kind": (vcr(vcr_record(0, [1], block_hashes=["a"])), "x:2: block_hashes[0]: expected an integer, found a string"),
    "images of another kind": (vcr(vcr_record(0, [1], mm_hashes=[5])), "x:2: mm_hashes[0]: expected a string"),
    "unknown reason": (vcr(vcr_record(0, [1], finish_reason="bored")), "x:2: finish_reason: expected one of stop, length, abort"),
    "hashes without meta": (vcr(vcr_record(0, [1]), block_size=None), "x:1: block_hashes: expected a block_size in the meta line"),
    "meta without size": (
        b'{"meta": {}}\n' + vcr(vcr_record(0, [1]), block_size=None),
        "x:2: block_hashes: expected a block_size in the meta line",
    ),
    "no size": (vcr(vcr_record(0, [1]), block_size=0), "x:1: meta.block_size: expected an integer from 1"),
    "meta of another kind": (b'{"meta": 5}\n', "x:1: meta: expected an object, found a number"),
    "meta later": (vcr(vcr_record(0, [1])) + b'{"meta": {}}\n', "x:3: prompt_tokens: required"),
    "no object": (vcr(vcr_record(0, [1])) + b"7\n", "x:3: expected an object, found a number"),
    "cut line": (vcr(vcr_record(0, [1]))[:-9], "x:2: the file ends in the middle"),
    "binary": (vcr() + b"\x00\xff\n", "x:2: expected UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_told_with_line_and_field(kind: str) -> None:
    data, expected = DAMAGES[kind]

    with pytest.raises(TraceError) as caught:
        read_records(Source.of_bytes(data, "x"))

    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_a_compressed_file_that_was_not_closed_is_told() -> None:
    with pytest.raises(TraceError, match="x: the compressed file is damaged or cut short"):
        read_records(Source.of_bytes(gzip.compress(vcr(vcr_record(0, [1])))[:-4], "x"))


def test_unknown_keys_are_counted() -> None:
    record = json.loads(json.dumps(vcr_record(0, [1], secret="x")))

    assert records(record).notes.counts == {"unknown field (dropped)": 1}
