from __future__ import annotations

from dataclasses import replace

import pytest

from rotoscope.traces import TraceError
from rotoscope.traces.journal import (
    CallEnded,
    CallMeasured,
    CallOpened,
    JournalHeader,
    JournalRecord,
    OutputMeasured,
    PartCounted,
    PartSeen,
)
from rotoscope.traces.journal_rules import JournalRules

HEADER = JournalHeader(trace_id="0" * 16, campaign="1" * 16, tokenizer="o200k_base")
PART = PartSeen(part=0, role="user", digest="0" * 32, borders="a" * 16, text_bytes=2, loose_bytes=2, most_tokens=9)
LATER_PART = replace(PART, part=1, parent=0)
OPENED = CallOpened(call=0, domain=0, head=0, at_ms=0.0)
SECOND = CallOpened(call=1, domain=0, head=1, at_ms=1.0, previous=0, answers=0)
ENDED = CallEnded(call=0, at_ms=1.5, finish_reason="stop", answer=0)
MEASURED = CallMeasured(call=0, tokens=0, prompt_tokens=5)
OUTPUT = OutputMeasured(call=0, stream_tokens=7)
SECOND_MEASURED = CallMeasured(call=1, of=0, tokens=7, prompt_tokens=9)
COUNTED = PartCounted(part=0, tokens=3)
WHOLE = (PART, OPENED, ENDED, MEASURED, OUTPUT, COUNTED, LATER_PART, SECOND, SECOND_MEASURED)


def check(*records: JournalRecord, header: JournalHeader = HEADER) -> None:
    rules = JournalRules(header)
    for number, record in enumerate(records):
        rules.check(record, where=f"record {number}")


def test_records_that_follow_from_one_another_pass() -> None:
    check(*WHOLE)


def test_a_record_that_later_ones_rest_on_is_missed() -> None:
    for missing in (PART, OPENED, MEASURED, OUTPUT, LATER_PART, SECOND):
        with pytest.raises(TraceError):
            check(*(record for record in WHOLE if record is not missing))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([replace(PART, part=1)], "0: part: expected part 0, found 1"),
        ([replace(PART, parent=0)], "0: parent: expected a part that was seen, found 0"),
        ([replace(PART, borders="a" * 32)], "0: borders: expected digests of 1 borders"),
        ([PART, PART], "1: part: expected part 1, found 0"),
        ([OPENED], "0: head: expected a part that was seen, found 0"),
        ([PART, replace(OPENED, call=1)], "1: call: expected call 0, found 1"),
        ([PART, replace(OPENED, previous=0)], "1: previous: expected an earlier call, found 0"),
        ([PART, replace(OPENED, answers=0)], "1: answers: expected an earlier call, found 0"),
        ([PART, ENDED], "1: call: expected a call that was opened, found 0"),
        ([PART, OPENED, replace(ENDED, answer=4)], "2: answer: expected a part that was seen, found 4"),
        ([PART, OPENED, ENDED, ENDED], "3: call: call 0 has ended before"),
        ([PART, MEASURED], "1: call: expected a call that was opened, found 0"),
        ([PART, OPENED, MEASURED, MEASURED], "3: call: call 0 was measured before"),
        ([PART, OPENED, replace(MEASURED, tokens=1)], "2: tokens: expected 0 tokens in common with nothing"),
        ([PART, OPENED, replace(MEASURED, of=0, tokens=1)], "2: of: expected a call that was measured before"),
        ([*WHOLE[:-1], replace(SECOND_MEASURED, tokens=8)], "8: tokens: expected 1 to 7, the length of both prompts"),
        ([*WHOLE[:-1], replace(SECOND_MEASURED, tokens=0)], "8: tokens: expected 1 to 7, the length of both prompts"),
        ([PART, OPENED, OUTPUT], "2: call: expected a call that was measured before"),
        ([PART, OPENED, MEASURED, replace(OUTPUT, stream_tokens=4)], "3: stream_tokens: expected more than its prompt"),
        ([COUNTED], "0: part: expected a part that was seen, found 0"),
        ([PART, COUNTED, COUNTED], "2: part: part 0 was counted before"),
    ],
)
def test_a_record_that_does_not_follow_is_told_with_its_place_and_field(
    records: list[JournalRecord], message: str
) -> None:
    with pytest.raises(TraceError) as raised:
        check(*records)

    assert str(raised.value) == f"record {message}"


def test_texts_are_counted_by_the_tokenizer_of_the_header_alone() -> None:
    with pytest.raises(TraceError, match="1: record: expected a tokenizer in the header"):
        check(PART, COUNTED, header=replace(HEADER, tokenizer=None))
