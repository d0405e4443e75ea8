from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from mooncake_files import chat, lines, prompt, read, read_chats, row, span, step, turn

from rotoscope.traces import TraceError
from rotoscope.traces.formats.mooncake_rows import SourceRows, parse_rows
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.formats.source import Source

HUGE = 10**40
LINKED = step("a", "s", 1, branches=["b"])


def parse(*rows: object, dialect: str = "mooncake") -> SourceRows:
    return parse_rows(Source.of_bytes(lines(*rows), "x"), dialect=dialect)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"input_length": None}, "input_length: required, but not there"),
        ({"input_length": 0}, "input_length: expected an integer from 1 to"),
        ({"input_length": -5}, "input_length: expected an integer from 1 to"),
        ({"input_length": "5"}, "input_length: expected an integer, found a string"),
        ({"input_length": 5.0}, "input_length: expected an integer"),
        ({"input_length": True}, "input_length: expected an integer"),
        ({"input_length": HUGE}, "input_length: expected an integer, found 1e+40"),
        ({"output_length": None}, "output_length: required, but not there"),
        ({"output_length": -1}, "output_length: expected an integer from 0 to"),
        ({"output_length": [1]}, "output_length: expected an integer, found"),
        ({"timestamp": "0"}, "timestamp: expected a number, found a string"),
        ({"timestamp": -1}, "timestamp: expected a time from 0 to"),
        ({"timestamp": 1e300}, "timestamp: expected a time from 0 to"),
        ({"timestamp": HUGE}, "timestamp: expected a time from 0 to"),
        ({"hash_ids": 7}, "hash_ids: expected a list"),
        ({"hash_ids": [1, "x"]}, "hash_ids[1]: expected an integer, found a string"),
        ({"hash_ids": [1, 2.5]}, "hash_ids[1]: expected an integer"),
        ({"hash_ids": list(range(99))}, "hash_ids: expected as many as 600 tokens have blocks of 512, found 99"),
        ({"session_id": 5}, "session_id: expected a string, found"),
        ({"model": {}}, "model: expected a string, found"),
        ({"delay": -2}, "delay: expected a number from 0 to"),
        ({"delay": "2"}, "delay: expected a number, found a string"),
        ({"wait_for": ["a"]}, "request_id: required where a row has wait_for, but not there"),
        ({"request_id": 3}, "request_id: expected a string"),
        ({"request_id": "b", "wait_for": "a"}, "wait_for: expected a list"),
        ({"request_id": "b", "wait_for": [1]}, "wait_for[0]: expected a string"),
        ({"request_id": "b", "tool_wait_ms": -1}, "tool_wait_ms: expected a number from 0 to"),
        ({"request_id": "b", "tool_events": {}}, "tool_events: expected a list"),
        ({"request_id": "b", "tool_events": [1]}, "tool_events[0]: expected an object"),
        ({"request_id": "b", "tool_events": [span("ls", None, 1)]}, "tool_events[0].started_at_unix_ms: required"),
        ({"request_id": "b", "tool_events": [span("ls", 1, None)]}, "tool_events[0].duration_ms: required"),
        ({"request_id": "b", "tool_events": [span("ls", 1, -1)]}, "tool_events[0].duration_ms: expected a number"),
    ],
)
def test_a_damaged_field_is_one_error_with_file_line_and_field(damage: dict[str, Any], message: str) -> None:
    good = row(0, 1, 2, 3)
    bad = {key: value for key, value in {**row(5, 1, 4, tail=88), **damage}.items() if value is not None}

    with pytest.raises(TraceError) as caught:
        read(good, bad)

    assert str(caught.value).startswith(f"x:2: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"chat_id": None}, "chat_id: required, but not there"),
        ({"chat_id": "7"}, "chat_id: expected an integer, found a string"),
        ({"chat_id": 1}, "chat_id: expected an id of its own, found that of line 1"),
        ({"parent_chat_id": "1"}, "parent_chat_id: expected an integer"),
        ({"parent_chat_id": 2}, "parent_chat_id: expected a first chat, found a circle"),
        ({"timestamp": None}, "timestamp: required, but not there"),
        ({"timestamp": -0.5}, "timestamp: expected a time from 0 to"),
        ({"input_length": None}, "input_length: required, but not there"),
        ({"hash_ids": [1] * 5}, "hash_ids: expected as many as 32 tokens have blocks of 16, found 5"),
    ],
)
def test_a_damaged_field_of_bailian_is_one_error_with_file_line_and_field(damage: dict[str, Any], message: str) -> None:
    bad = {key: value for key, value in {**chat(2, 1, 9.5, 1, 3), **damage}.items() if value is not None}

    with pytest.raises(TraceError) as caught:
        read_chats(chat(1, -1, 0.5, 1, 2), bad)

    assert str(caught.value).startswith(f"x:2: {message}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lines(row(0, 1), row(1, 2))[:-9], ":2: "),
        (lines(row(0, 1)) + b'{"timestamp": 1, "input_length": 5, "output_length": NaN}', ":2: "),
        (lines(row(0, 1)) + b"\x00\xff\xfe\n", ":2: "),
        (lines(row(0, 1)) + b'{"a": ' + b"[" * 200_000, ":2: "),
        (lines(row(0, 1), [1]), ":2: expected an object, found"),
        (lines(row(0, 1), None), ":2: expected an object, found"),
        (gzip.compress(lines(row(0, 1), row(1, 2)), mtime=0)[:-12], ": the compressed file is damaged or cut short"),
        (lines(row(0, 1), chat(1, -1, 2, 3)), ":2: chat_id: expected rows of one dialect"),
        (lines(chat(1, -1, 2, 3), row(0, 1)), ":2: chat_id: required, but not there"),
        (lines(row(0, 1), LINKED), ":1: request_id: required where other rows have it"),
        (lines(LINKED, row(1, 2)), ":2: request_id: required where other rows have it"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_a_damaged_file_is_one_error_with_file_and_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)

    with pytest.raises(TraceError) as caught:
        open_traces([path])

    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [{"text_input": "secret"}, {"messages": [{"role": "user"}]}, {"payload": {"a": 1}}])
def test_a_row_of_text_is_refused_with_what_is_needed_and_without_the_text(
    tmp_path: Path, text: dict[str, Any]
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines({"timestamp": 0, "output_length": 4, **text}))

    with pytest.raises(TraceError) as caught:
        open_traces([path])

    name = next(iter(text))
    assert str(caught.value) == (
        f"{path}:1: {name}: holds text in place of lengths: expected input_length, output_length and hash_ids"
    )


def test_text_beside_the_lengths_and_what_is_unknown_is_left_out_and_counted() -> None:
    file = parse(row(0, 1, text_input="secret", extra={"a": 1}, output_token_ids=[1], priority=3, other="x"))

    assert file.notes.counts == {
        "content beside the lengths (dropped)": 2,
        "token ids (dropped)": 1,
        "unknown field (dropped)": 2,
    }
    assert "secret" not in repr(file.rows)


def test_ids_of_64_bits_are_told_apart() -> None:
    big = 2**64 - 1
    members = read(row(0, big, 1), row(0, big, 2), row(0, -1, 3), row(0, 2**63, 4))

    assert [call.prefix.of for member in members for call in member.trace.calls()] == ["s0", "s0", None, None]


def test_the_other_names_of_fields_are_known() -> None:
    fields = {"created_time": 3, "input_tokens": 512, "output_tokens": 4, "hash_ids": [1], "delay_ms": 7}

    parsed = parse(fields).rows[0]

    assert (parsed.at_ms, parsed.prompt_tokens, parsed.completion_tokens, parsed.delay_ms) == (3.0, 512, 4, 7.0)


def test_bailian_counts_seconds() -> None:
    assert parse(chat(1, -1, 61.114, 5), dialect="bailian").rows[0].at_ms == 61114.0


def sized(tokens: int, ids: int) -> dict[str, Any]:
    return {"timestamp": 0, "input_length": tokens, "output_length": 1, "hash_ids": list(range(ids))}


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        ([], 512),
        ([sized(100, 1)], 512),
        ([sized(513, 2), sized(5000, 10)], 512),
        ([sized(1023, 1)], 512),
        ([sized(1024, 16)], 64),
        ([sized(1000, 16), sized(100, 2)], 64),
        ([sized(1000, 15), sized(130, 2)], 64),
        ([sized(300, 2)], 256),
        ([sized(2**31 - 1, 1)], 2**30),
        ([sized(100, 10), sized(1000, 100)], 10),
        ([{"timestamp": 0, "input_length": 9999, "output_length": 1}, sized(64, 4)], 16),
    ],
)
def test_the_block_size_is_512_unless_the_numbers_of_ids_say_otherwise(rows: list[dict[str, Any]], size: int) -> None:
    assert parse(*rows).block_size == size


def test_the_block_size_of_bailian_is_16_unless_the_numbers_of_ids_say_otherwise() -> None:
    assert parse(chat(1, -1, 0, 5, tail=3), dialect="bailian").block_size == 16
    assert parse({**chat(1, -1, 0, 5), **prompt(1, 2, block=32)}, dialect="bailian").block_size == 32


def test_lines_that_are_blank_are_no_rows_and_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(lines(row(0, 1)) + b"\n  \n" + lines(row(1, 2))))

    assert len(open_traces([path])) == 2


def test_no_name_of_a_file_is_kept() -> None:
    members = read(turn("secret-session", 1, at_ms=0, model="secret-model"))

    assert not re.search("secret", repr(members))


def test_the_content_of_agentic_rows_is_not_kept() -> None:
    tool = span("secret-tool", 5, 5, error_type="secret-error")
    members = read(
        step("secret-a", "secret-s", 1),
        step("secret-b", "secret-s", 1, 2, at_ms=50, after=["secret-a"], delay=0, tool_wait_ms=5, tool_events=[tool]),
    )

    assert not re.search("secret", repr(members))
    assert json.dumps("tool0")[1:-1] in repr(members)
