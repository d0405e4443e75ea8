"""Feed damaged files to every reader of trace formats: each must give traces that are valid, or one clear error.

    python scripts/fuzz_readers.py --inputs 1000000            # all formats, so many inputs each
    python scripts/fuzz_readers.py --inputs 20000 --format weka --seed 7

Inputs are small samples of the format after a few random edits: of bytes, of lines, and of values inside the JSON. An
input that ends in a traceback, an error of several lines, an invalid trace, or that takes longer than the limit is saved
and makes the script fail. A run is repeated by its seed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from rotoscope.traces import UnusableInput, dumps, loads
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.registry import Format, all_formats
from rotoscope.traces.formats.source import Source

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from format_samples import SAMPLES

LIMIT_S = 5.0
"""Samples are a few kilobytes and are read in a millisecond: whatever takes this long hangs."""
MOST_FAILURES = 10
"""A reader that failed so often is given up."""
REREAD_SHARE = 0.02
"""Share of the good outcomes whose traces are written and read again."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 63, 64, 65, 512, 513, 10**6, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**30, -(10**30)),
    *(0.0, 0.5, -0.5, 1e-300, 1e12, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "x", "0", "-1", "1e9", "\ud800", "\x00", "é" * 50, "a" * 5000, "system", "assistant", "subagent", "local", "global"),
    *("2026-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "request_end", "tool_start", "tool_end", "stop", "tool_use"),
    *([], {}, [0], [1, 1], [[]], [{}], [None], [-1], ["x"], [10**30], {"x": 1}, {"": None}),
)  # fmt: skip


class Hangs(Exception):
    """Raised into a reader that takes too long."""


def main() -> int:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _raise_hangs)
    failures = 0
    for known in all_formats():
        if arguments.format in (None, known.name):
            failures += fuzz(known, arguments.inputs, arguments.seed, arguments.out)
    return 1 if failures else 0


def fuzz(known: Format, inputs: int, seed: int, out: Path) -> int:
    """Feed so many inputs to one reader and print the outcomes; return how many failed."""
    chance = random.Random(f"{known.name} {seed}")
    outcomes: Counter[str] = Counter()
    failures = 0
    began = time.perf_counter()
    for number in range(inputs):
        data = damaged(chance.choice(SAMPLES[known.name]), chance)
        outcome = _outcome(known, data, chance)
        if outcome.startswith("FAILED"):
            failures += 1
            _keep(out, f"{known.name}-{seed}-{number}", data, outcome)
        outcomes[outcome.partition(":")[0]] += 1
        if failures == MOST_FAILURES:
            break
    elapsed_s = time.perf_counter() - began
    shown = ", ".join(f"{times:,} {outcome}" for outcome, times in sorted(outcomes.items()))
    print(f"{known.name}: {outcomes.total():,} inputs in {elapsed_s:.0f} s: {shown}", flush=True)
    return failures


def _outcome(known: Format, data: bytes, chance: random.Random) -> str:
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        source = Source.of_bytes(data, "x")
        members = read_source(source)[1] if chance.random() < 0.5 else known.read(source, Fidelity())
        if chance.random() < REREAD_SHARE and any(loads(dumps(one.trace)) != one.trace for one in members):
            return "FAILED: a trace is another one after it was written and read"
    except UnusableInput as error:
        return "refused" if _is_clear(str(error)) else f"FAILED: unclear error {str(error)!r}"
    except Hangs:
        return "FAILED: takes too long"
    except Exception as error:  # noqa: BLE001 - that none comes is what is tested
        return f"FAILED: {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "read"


def _is_clear(text: str) -> bool:
    return text.startswith("x") and "\n" not in text and len(text) < 500


def damaged(sample: bytes, chance: random.Random) -> bytes:
    """Return a sample after one to four edits, now and then compressed."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        sample = chance.choice(EDITS)(sample, chance)
    return gzip.compress(sample, 1, mtime=0)[: chance.choice((None, None, -3))] if chance.random() < 0.02 else sample


def _edit_bytes(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    stop = min(place + chance.choice((0, 1, 1, 3, 20)), len(data))
    inserted = chance.choice(
        (b"", b"", chance.randbytes(1), b"\xff", b"\x00", b"{", b"]", b'"', b",", b"9" * 400, b"[" * 3000)
    )
    return data[:place] + inserted + data[stop:]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


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
    places = list(_places(document))
    if places:
        container, key = chance.choice(places)
        _change(container, key, chance)
    lines[place] = json.dumps(document).encode()
    return b"\n".join(lines)


def _change(container: Any, key: Any, chance: random.Random) -> None:
    match chance.randrange(6):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[chance.choice(("x", "", "event_type", "requests", "hash_ids"))] = chance.choice(VALUES)
        case 1 | 2 if isinstance(container, list):
            container.insert(key, container[key])
        case 3 if isinstance(container[key], int | float) and abs(container[key]) < 2**64:  # no float beyond 1e308
            container[key] += chance.choice((-1, 1, 64, -64, 0.5, 10**9))
        case _:
            container[key] = chance.choice(VALUES)


def _is_lines(data: bytes) -> bool:
    first, _, rest = data.lstrip().partition(b"\n")
    return first.endswith(b"}") and bool(rest.strip())


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, item in items:
        yield value, key
        yield from _places(item)


EDITS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_edit_values,) * 6,
    *(_edit_lines,) * 2,
    _edit_bytes,
    _cut,
    _repeat,
)


def _raise_hangs(signum: int, frame: FrameType | None) -> None:
    raise Hangs


def _keep(out: Path, name: str, data: bytes, outcome: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_bytes(data)
    print(f"{out / name}: {outcome[:300]}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="inputs a format")
    parser.add_argument("--format", choices=[known.name for known in all_formats()], help="this one only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="where inputs that fail are saved")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
