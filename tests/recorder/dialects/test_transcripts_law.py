"""However the bytes of an answer are cut, they are forwarded as they came and the same is recorded of them."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Any

import orjson
import pytest
from chat_wire import pieces
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import TRANSCRIPTS, Transcript

from rotoscope.recorder import Recorder
from rotoscope.recorder.dialects.registry import DIALECTS, dialect_of
from rotoscope.traces.journal import CallEnded, CallOpened, Journal, PartSeen
from rotoscope.traces.journal_files import JournalWriter, parse_journal

KEY = bytes(32)
NAMES = [transcript.name for transcript in TRANSCRIPTS]
SENT_BACK = [t for t in TRANSCRIPTS if any(call.get("sent_back") for call in t.calls)]


def heard(transcript: Transcript, chunks: Iterable[bytes], *more: bytes) -> tuple[bytes, list[str], Journal]:
    """Let an answer pass in chunks; return what was forwarded, what went wrong, and the journal."""
    file = BytesIO()
    recorder = Recorder(JournalWriter(file), key=KEY)
    exchange = recorder.request(transcript.path, transcript.body, at_s=1.0)
    exchange.response(transcript.status, at_s=1.0, content_type=transcript.content_type)
    forwarded = [exchange.chunk(chunk, at_s=1.0) for chunk in chunks] + [exchange.end(at_s=1.0)]
    for body in more:
        recorder.request(transcript.path, body, at_s=2.0)
    return b"".join(forwarded), recorder.trouble, parse_journal(file.getvalue())


def told(journal: Journal) -> list[Any]:
    """Return what was recorded of calls."""
    return [record for record in journal.records if not isinstance(record, PartSeen)]


def troubles(transcript: Transcript) -> list[str]:
    return [call["trouble"] for call in transcript.calls if "trouble" in call]


def borders(data: bytes) -> list[int]:
    """Return the places where a cut is most likely to hurt: inside characters, and around ends of lines."""
    return [i for i in range(1, len(data)) if data[i - 1] in b"\r\n" or data[i] in b"\r\n" or data[i] >= 0x80]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
def test_an_answer_is_recorded_as_it_should_be(transcript: Transcript) -> None:
    forwarded, trouble, journal = heard(transcript, [transcript.answer])
    ends = [record for record in journal.records if isinstance(record, CallEnded)]

    assert (forwarded, trouble) == (transcript.forwarded, troubles(transcript))
    assert len(ends) == len(transcript.calls)
    for end, expected in zip(ends, transcript.calls, strict=True):
        fields = {name: value for name, value in expected.items() if name not in ("sent_back", "trouble")}
        seen = {name: getattr(end, name) for name in fields}
        assert seen | {"tools": list(end.tools)} == fields | {"tools": fields.get("tools", list(end.tools))}


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
def test_bytes_that_come_one_by_one_are_the_same_answer(transcript: Transcript) -> None:
    whole = heard(transcript, [transcript.answer])
    single = heard(transcript, (bytes([byte]) for byte in transcript.answer))

    assert single[:2] == whole[:2]
    assert told(single[2]) == told(whole[2])


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
def test_an_answer_that_is_cut_where_it_hurts_is_the_same_answer(transcript: Transcript) -> None:
    whole = heard(transcript, [transcript.answer])
    for cut in borders(transcript.answer):
        halves = heard(transcript, [transcript.answer[:cut], transcript.answer[cut:]])

        assert halves[:2] == whole[:2]
        assert told(halves[2]) == told(whole[2])


@settings(max_examples=80)
@given(st.sampled_from(TRANSCRIPTS), st.lists(st.integers(0, 10_000), max_size=12))
def test_an_answer_that_is_cut_anywhere_is_the_same_answer(transcript: Transcript, cuts: list[int]) -> None:
    whole = heard(transcript, [transcript.answer])
    cut = heard(transcript, pieces(transcript.answer, cuts))

    assert cut[:2] == whole[:2]
    assert told(cut[2]) == told(whole[2])


@settings(max_examples=50)
@given(st.sampled_from(TRANSCRIPTS), st.integers(0, 10_000), st.booleans())
def test_a_client_that_leaves_ends_a_call_whose_bytes_were_forwarded(
    transcript: Transcript, place: int, is_upstream: bool
) -> None:
    file = BytesIO()
    recorder = Recorder(JournalWriter(file), key=KEY)
    exchange = recorder.request(transcript.path, transcript.body, at_s=1.0)
    exchange.response(transcript.status, at_s=1.0, content_type=transcript.content_type)
    forwarded = exchange.chunk(transcript.answer[: place % (len(transcript.answer) + 1)], at_s=1.0)
    (exchange.failed if is_upstream else exchange.cancelled)(at_s=2.0)
    ends = [record for record in parse_journal(file.getvalue()).records if isinstance(record, CallEnded)]

    assert transcript.forwarded.startswith(forwarded)
    assert len(ends) == len(transcript.calls)
    assert not any("failed" in trouble for trouble in recorder.trouble)


@pytest.mark.parametrize("transcript", SENT_BACK, ids=[transcript.name for transcript in SENT_BACK])
def test_an_answer_that_is_sent_back_is_the_part_that_it_was(transcript: Transcript) -> None:
    dialect = dialect_of(transcript.path)
    assert dialect is not None
    body, back = orjson.loads(transcript.body), next(x for call in transcript.calls if (x := call.get("sent_back")))
    _, _, journal = heard(
        transcript, [transcript.answer], orjson.dumps(body | {dialect.growing: body[dialect.growing] + back})
    )
    answers = [record.answer for record in journal.records if isinstance(record, CallEnded)]
    heads = [record.head for record in journal.records if isinstance(record, CallOpened)]

    assert answers[0] is not None
    assert heads[-1] == answers[0]


def test_every_dialect_has_transcripts() -> None:
    assert {transcript.dialect for transcript in TRANSCRIPTS} == {dialect.name for dialect in DIALECTS}
