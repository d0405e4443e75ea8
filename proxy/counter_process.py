"""The process that counts tokens: texts come in on standard input, their counts go out, nothing is kept.

It is one of its own because loading a tokenizer, and some ways of using one, hold Python's lock for up to a second; in
the gateway's process every call would wait for it. It runs at low priority and ends when its input does, also when the
gateway was killed. A line is a JSON array of [part, text, thinking, scale]; the answer's line one of [part, tokens,
thinking tokens, is estimate]. Standard error leads nowhere: what a library says of a text may repeat it.

Run: python -P -m rotoscope.proxy.counter_process NAME [FILE]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import orjson

from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk
from rotoscope.recorder.counting import Counted, Tally, Uncounted
from rotoscope.recorder.token_counters import Tokenizer, load_counter

NICENESS = 10


def serve(tally: Tally, asked: Iterable[bytes], answers: BinaryIO) -> None:
    """Answer each line until there are no more."""
    for line in asked:
        answers.write(packed_counts(tally.count(unpacked_texts(line))))
        answers.flush()


def packed_texts(texts: Iterable[Uncounted]) -> bytes:
    """Return texts as a line."""
    rows = [
        [x.part, *(text.encode(errors="replace").decode() for text in (x.text, x.reasoning)), x.scale] for x in texts
    ]
    return orjson.dumps(rows, option=orjson.OPT_APPEND_NEWLINE)


def unpacked_texts(line: bytes) -> list[Uncounted]:
    return [Uncounted(*row) for row in orjson.loads(line)]


def packed_counts(counts: Iterable[Counted]) -> bytes:
    """Return counts as a line."""
    rows = [[x.part, x.tokens, x.reasoning_tokens, x.is_estimate] for x in counts]
    return orjson.dumps(rows, option=orjson.OPT_APPEND_NEWLINE)


def unpacked_counts(line: bytes) -> list[Counted]:
    return [
        Counted(part, tokens, reasoning, is_estimate=guess) for part, tokens, reasoning, guess in orjson.loads(line)
    ]


def main(name: str, file: str | None = None) -> None:
    # Sent to the whole group by a terminal or by `timeout`, while the last texts are still to be counted; the end of the
    # input ends it.
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    keep_prompts_off_the_disk()
    os.nice(NICENESS)
    tally = Tally(load_counter(Tokenizer(name, None if file is None else Path(file))))
    serve(tally, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(*sys.argv[1:])
