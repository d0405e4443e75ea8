"""Feed damaged files to every reader of trace formats: each must give traces that are valid, or one clear error.

    PYTHONPATH=tests python -m scripts.fuzz.readers --inputs 1000000            # all formats, so many inputs each
    PYTHONPATH=tests python -m scripts.fuzz.readers --inputs 20000 --format weka --seed 7

Inputs are small samples of the format after a few random edits: of bytes, of lines, and of values inside the JSON. An
input that ends in a traceback, an error of several lines, an invalid trace, or that takes longer than the limit is saved
and makes the script fail. A run is repeated by its seed.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

from format_samples import SAMPLES

from rotoscope.traces import UnusableInput, dumps, loads
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.registry import Format, all_formats
from rotoscope.traces.formats.source import Source
from scripts.fuzz.attempts import FAILED, attempts, keep, outcome_of, run
from scripts.fuzz.damage import change_value, cut, edit_bytes, edited

REREAD_SHARE = 0.02
"""Share of the good outcomes whose traces are written and read again."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 63, 64, 65, 512, 513, 10**6, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**30, -(10**30)),
    *(0.0, 0.5, -0.5, 1e-300, 1e12, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "x", "0", "-1", "1e9", "\ud800", "\x00", "é" * 50, "a" * 5000, "system", "assistant", "subagent", "local", "global"),
    *("2026-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "request_end", "tool_start", "tool_end", "stop", "tool_use"),
    *([], {}, [0], [1, 1], [[]], [{}], [None], [-1], ["x"], [10**30], {"x": 1}, {"": None}),
)  # fmt: skip


def main() -> int:
    formats = {known.name: known for known in all_formats()}
    return run(__doc__, "format", list(formats), lambda name, *how: fuzz(formats[name], *how))


def fuzz(known: Format, inputs: int, seed: int, out: Path) -> int:
    """Feed so many inputs to one reader and print the outcomes; return how many failed."""

    def attempt(number: int, chance: random.Random) -> str:
        data = damaged(chance.choice(SAMPLES[known.name]), chance)
        outcome = outcome_of(lambda: _read(known, data, chance))
        if outcome.startswith(FAILED):
            keep(out, {f"{known.name}-{seed}-{number}": data}, outcome)
        return outcome

    return attempts(known.name, inputs, seed, attempt)


def _read(known: Format, data: bytes, chance: random.Random) -> str:
    try:
        source = Source.of_bytes(data, "x")
        members = read_source(source)[1] if chance.random() < 0.5 else known.read(source, Fidelity())
        if chance.random() < REREAD_SHARE and any(loads(dumps(one.trace)) != one.trace for one in members):
            return f"{FAILED}: a trace is another one after it was written and read"
    except UnusableInput as error:
        return "refused" if _is_clear(str(error)) else f"{FAILED}: unclear error {str(error)!r}"
    return "read"


def _is_clear(text: str) -> bool:
    return text.startswith("x") and "\n" not in text and len(text) < 500


def damaged(sample: bytes, chance: random.Random) -> bytes:
    """Return a sample after some edits, now and then compressed."""
    sample = edited(sample, chance, EDITS)
    return gzip.compress(sample, 1, mtime=0)[: chance.choice((None, None, -3))] if chance.random() < 0.02 else sample


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start, stop = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:stop] + data[start:]


def _edit_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[other])
        case 2:
            lines[place], lines[other] = lines[other], lines[place]
        case _:
            foreign = chance.choice(SAMPLES[chance.choice(list(SAMPLES))]).splitlines(keepends=True)
            lines.insert(place, chance.choice(foreign))
    return b"".join(lines)


def _edit_values(data: bytes, chance: random.Random) -> bytes:
    """Change, remove or add a value in one of the JSON documents of a file, one a line or one in all."""
    lines = data.splitlines() if _is_lines(data) else [data]
    place = chance.randrange(len(lines)) if lines else 0
    try:
        document = json.loads(lines[place])
    except (ValueError, IndexError, RecursionError):
        return data
    change_value(document, chance, names=("x", "", "event_type", "requests", "hash_ids"), values=VALUES)
    lines[place] = json.dumps(document).encode()
    return b"\n".join(lines)


def _is_lines(data: bytes) -> bool:
    first, _, rest = data.lstrip().partition(b"\n")
    return first.endswith(b"}") and bool(rest.strip())


EDITS = (
    *(_edit_values,) * 6,
    *(_edit_lines,) * 2,
    partial(edit_bytes, written=(b"\xff", b"\x00", b"{", b"]", b'"', b",", b"9" * 400, b"[" * 3000)),
    cut,
    _repeat,
)


if __name__ == "__main__":
    sys.exit(main())
