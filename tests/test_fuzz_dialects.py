from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from transcripts import TRANSCRIPTS, Transcript

from rotoscope.recorder import Exchange, Recorder
from rotoscope.traces.journal_files import JournalWriter
from scripts.fuzz import dialects

DIALECTS = sorted({transcript.dialect for transcript in TRANSCRIPTS} | {"embeddings"})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_damaged_requests_and_answers_hurt_nobody(dialect: str, tmp_path: Path) -> None:
    assert dialects.fuzz(dialect, 300, 1, tmp_path) == 0


def test_a_recorder_that_changes_bytes_is_found_and_its_input_kept(tmp_path: Path) -> None:
    class Forgetful(Exchange):
        def chunk(self, data: bytes, *, at_s: float) -> bytes:
            return data[1:]

    class Careless(Recorder):
        def request(
            self,
            path: str,
            body: bytes,
            *,
            at_s: float,
            headers: Mapping[str, str] = {},
            asks_usage: bool = True,
        ) -> Exchange:
            return Forgetful(body)

    assert dialects.fuzz("chat", 20, 1, tmp_path, begin=lambda: Careless(JournalWriter(BytesIO()))) > 0
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize("transcript", [x for x in TRANSCRIPTS if x.answer != x.forwarded], ids=lambda x: x.name)
def test_only_usage_may_be_withheld(transcript: Transcript) -> None:
    answer, forwarded = transcript.answer, transcript.forwarded

    assert dialects._is_same_answer(answer, forwarded, is_whole=True, may_withhold=True)
    assert not dialects._is_same_answer(answer, forwarded, is_whole=True, may_withhold=False)
    assert not dialects._is_same_answer(answer.replace(b"usage", b"other"), forwarded, is_whole=True, may_withhold=True)
