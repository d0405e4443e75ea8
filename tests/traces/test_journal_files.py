from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from chat_wire import Wire, assistant, result, system, tool_call, usage, user

from rotoscope.traces import TraceError
from rotoscope.traces.journal import (
    CallEnded,
    CallMeasured,
    CallOpened,
    JournalHeader,
    JournalRecord,
    PartCounted,
    PartSeen,
)
from rotoscope.traces.journal_files import JournalWriter, parse_journal, read_journal

HEADER = JournalHeader(trace_id="0" * 16, campaign="1" * 16, tokenizer="o200k_base")
PART = PartSeen(
    part=0, role="user", digest="0" * 32, borders="a" * 16, text_bytes=2, loose_bytes=2, most_tokens=9, has_calls=True
)
OPENED = CallOpened(call=0, domain=0, head=0, at_ms=0.0)
ENDED = CallEnded(
    call=0,
    at_ms=1.5,
    finish_reason="tool_calls",
    status=200,
    prompt_tokens=5,
    reasoning_tokens=0,
    answer=0,
    tools=(1, 2),
)
MEASURED = CallMeasured(call=0, tokens=0, prompt_tokens=5)
COUNTED = PartCounted(part=0, tokens=3, reasoning_tokens=1, is_estimate=True)


def written(*records: JournalRecord) -> bytes:
    file = BytesIO()
    writer = JournalWriter(file)
    writer.begin(HEADER)
    writer.write(records)
    return file.getvalue()


def recording() -> bytes:
    """Return the journal of a small run."""
    wire = Wire()
    start = [system("s"), user("a")]
    grown = wire.call(start, assistant(calls=[tool_call("1")]), counts=usage(20, 5))
    exchange = wire.ask([*grown, result("1", "b")])
    wire.answer(exchange, assistant("c"), counts=usage(30, 5))
    exchange.measured(range(30))
    wire.ask(start)
    return wire.journal.getvalue()


def damaged(line: int, **fields: Any) -> bytes:
    """Return a journal with other fields in one line; a field that is None is taken out."""
    lines = written(PART, OPENED, ENDED, MEASURED, COUNTED).splitlines(keepends=True)
    content = orjson.loads(lines[line - 1]) | fields
    lines[line - 1] = orjson.dumps({k: v for k, v in content.items() if v is not None}) + b"\n"
    return b"".join(lines)


def test_what_is_written_is_read() -> None:
    records = (PART, OPENED, ENDED, MEASURED, COUNTED)
    journal = parse_journal(written(*records))

    assert (journal.header, journal.records) == (HEADER, records)


def test_zeros_are_kept_and_what_is_not_known_is_left_out() -> None:
    line = written(PART, OPENED, ENDED).splitlines()[3]

    assert b'"reasoning_tokens":0' in line
    assert b"cached_tokens" not in line


def test_a_recording_cut_at_any_byte_is_read_up_to_its_last_whole_line() -> None:
    data = recording()
    whole = parse_journal(data)
    for size in range(data.index(b"\n") + 1, len(data) + 1):
        journal = parse_journal(data[:size])
        assert journal.records == whole.records[: data[:size].count(b"\n") - 1]


def test_a_file_that_ends_inside_its_header_has_nothing_to_recover() -> None:
    with pytest.raises(TraceError, match="nothing that can be recovered"):
        parse_journal(recording()[:20])


def test_a_file_is_opened_flushed_record_by_record_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.jsonl"
    writer = JournalWriter(path)
    writer.begin(HEADER)
    writer.write([PART, OPENED])

    assert read_journal(path).records == (PART, OPENED)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write([ENDED])


def test_a_file_that_was_handed_in_stays_open() -> None:
    file = BytesIO()
    JournalWriter(file).close()

    assert not file.closed


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n", "1: format: expected 'rotoscope.journal': this is no journal"),
        (b"\x00\xff\n", "1: format: expected 'rotoscope.journal': this is no journal"),
        (b"[]\n", "1: format: expected 'rotoscope.journal': this is no journal"),
        (b'{"format":"other"}\n', "1: format: expected 'rotoscope.journal': this is no journal"),
        (damaged(1, version=2), "1: version: expected version 1, found 2"),
        (damaged(1, campaign="x"), "1: campaign: "),
        (damaged(1, tokenizer="said by me"), "1: tokenizer: "),
        (damaged(1, tokenizer=None), "6: record: expected a tokenizer in the header"),
        (
            damaged(2, record="other"),
            "2: record: expected one of part, open, end, measured, output, counted, embedding",
        ),
        (damaged(2, record=3), "2: record: expected one of"),
        (damaged(2, text="said"), "2: text: "),
        (damaged(2, role="robot"), "2: role: "),
        (damaged(2, digest="said"), "2: digest: "),
        (damaged(2, text_bytes=-1), "2: text_bytes: "),
        (damaged(2, text_bytes=2.5), "2: text_bytes: "),
        (damaged(3, head=7), "3: head: expected a part that was seen, found 7"),
        (damaged(3, at_ms=None), "3: at_ms: "),
        (damaged(4, prompt_tokens=0), "4: prompt_tokens: "),
        (damaged(4, finish_reason="said"), "4: finish_reason: "),
        (damaged(6, tokens=None), "6: tokens: "),
        (damaged(6, tokens=-1), "6: tokens: "),
        (damaged(6, is_estimate="said"), "6: is_estimate: "),
        (written(PART, OPENED).replace(b'{"record":"open"', b'{"record":"ope', 1), "3: "),
        (written(PART, OPENED)[:-20] + b"\n" + written(OPENED), "3: expected a JSON object"),
    ],
)
def test_damage_is_told_with_its_line_and_field_and_without_what_stands_there(data: bytes, message: str) -> None:
    with pytest.raises(TraceError) as raised:
        parse_journal(data, path="run.jsonl")

    assert str(raised.value).startswith(f"run.jsonl:{message}")
    assert "said" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_nothing_written_before_the_last_line_can_be_lost_unseen() -> None:
    """Every line but the last is needed: without it the journal is refused or its trace would be another."""
    lines = recording().splitlines(keepends=True)
    whole = parse_journal(b"".join(lines)).records
    refused = 0
    for index in range(1, len(lines) - 1):
        try:
            records = parse_journal(b"".join(lines[:index] + lines[index + 1 :])).records
        except TraceError:
            refused += 1
        else:
            assert isinstance(whole[index - 1], CallEnded | CallMeasured)
            assert len(records) == len(whole) - 1

    assert refused > len(lines) // 2
