"""Claim: a Mooncake file of 12,031 rows is read into sessions with shared prefixes within 2 s.

    python benchmarks/mooncake_file.py [FILE]

Without a file one is made up in memory: chats that grow by turns behind a common beginning, with about as many rows and
blocks as the published conversation trace. Prints the median CPU seconds beside those of parsing the JSON alone. Exits 1
when the claim does not hold.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import read_mooncake
from rotoscope.traces.formats.source import Source

ROWS = 12_031
SESSIONS = 8_100
MEAN_BLOCKS = 24
BLOCK = 512
ROUNDS = 5
LIMIT_S = 2.0


def made_up() -> bytes:
    """Return rows of chats: two of three rows start one, the others go on with one, at any time."""
    chance = random.Random(0)
    chats: list[list[int]] = []
    ids = 1
    lines = []
    for number in range(ROWS):
        goes_on = len(chats) >= SESSIONS or (chats and chance.random() < 1 - SESSIONS / ROWS)
        chat = chance.choice(chats) if goes_on else [0]
        if not goes_on:
            chats.append(chat)
        grown = 1 + int(chance.expovariate(1 / (4 if goes_on else MEAN_BLOCKS - 2)))
        chat += range(ids, ids + grown)
        ids += grown + 1
        tail = chance.randrange(1, BLOCK)
        fields = {"timestamp": number * 300, "input_length": len(chat) * BLOCK + tail, "output_length": 300}
        lines.append(orjson.dumps({**fields, "hash_ids": [*chat, ids - 1]}))
    return b"\n".join(lines)


def median_cpu_s(work: Callable[[], object]) -> float:
    """Return the median CPU seconds of the work over the rounds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> int:
    """Measure, print, and return the exit code."""
    data = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else made_up()
    rows = [orjson.loads(line) for line in data.splitlines()]
    members = read_mooncake(Source.of_bytes(data), Fidelity())
    parsing = median_cpu_s(lambda: [orjson.loads(line) for line in data.splitlines()])
    reading = median_cpu_s(lambda: read_mooncake(Source.of_bytes(data), Fidelity()))
    print(f"{len(rows):,} rows, {sum(len(row['hash_ids']) for row in rows):,} blocks, {len(members):,} sessions")
    print(f"read: {reading:.3f} s CPU (limit {LIMIT_S} s), {len(rows) / reading:,.0f} rows/s")
    print(f"parsing the JSON alone: {parsing:.3f} s, {reading / parsing:.1f} times less")
    return 0 if reading < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
