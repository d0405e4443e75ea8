from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from tokenizer_files import word_tokenizer

from rotoscope.proxy.counter_process import (
    packed_counts,
    packed_texts,
    serve,
    unpacked_counts,
    unpacked_texts,
)
from rotoscope.recorder.counting import Counted, Tally, Uncounted

TEXTS = [Uncounted(4, 'line\n"two" \u2028 \U0001f600', "thinking", 1.5), Uncounted(0, "x")]


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def test_texts_and_counts_are_lines_that_come_back_as_they_were() -> None:
    counts = [Counted(4, 3, 1, is_estimate=True), Counted(0, 1)]

    for line in (packed_texts(TEXTS), packed_counts(counts)):
        assert line.index(b"\n") == len(line) - 1
    assert unpacked_texts(packed_texts(TEXTS)) == TEXTS
    assert unpacked_counts(packed_counts(counts)) == counts


def test_a_text_that_utf8_cannot_hold_is_counted_all_the_same() -> None:
    assert unpacked_texts(packed_texts([Uncounted(0, "a\ud800b")])) == [Uncounted(0, "a?b")]


def test_each_line_is_answered_by_one() -> None:
    answers = io.BytesIO()

    serve(Tally(Words()), [packed_texts(TEXTS), packed_texts([Uncounted(9, "a b")])], answers)

    lines = answers.getvalue().splitlines(keepends=True)
    assert [[x.part for x in unpacked_counts(line)] for line in lines] == [[4, 0], [9]]


def test_the_process_counts_with_a_file_until_its_input_ends_and_says_nothing_else(tmp_path: Path) -> None:
    file = word_tokenizer(tmp_path / "tokenizer.json")

    done = subprocess.run(
        [sys.executable, "-P", "-m", "rotoscope.proxy.counter_process", "file-0", str(file)],
        input=packed_texts([Uncounted(0, "one two three", "four")]),
        capture_output=True,
        check=True,
    )

    assert unpacked_counts(done.stdout) == [Counted(0, 3, 1)]
    assert done.stderr == b""
