"""Feed damaged requests and answers, cut anywhere, to every dialect of the recorder: no traceback, no byte changed.

    PYTHONPATH=tests python -m scripts.fuzz.dialects --inputs 1000000            # all dialects, so many inputs each
    PYTHONPATH=tests python -m scripts.fuzz.dialects --inputs 20000 --dialect gemini --seed 7

Inputs are the transcripts of the tests after a few random edits: of bytes, of events, and of values inside the JSON. One
recorder hears some of them and then builds its trace. An input that makes the recorder fail, that changes a byte of
what is forwarded (but for usage that the client did not ask for), or that takes longer than the limit is saved and makes
the script fail. A run is repeated by its seed.
"""

from __future__ import annotations

import io
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from transcripts import TRANSCRIPTS, Transcript

from rotoscope.recorder import Exchange, Recorder
from rotoscope.traces.journal_files import JournalWriter
from scripts.fuzz.attempts import FAILED, attempts, keep, outcome_of, run
from scripts.fuzz.damage import change_value, cut, edit_bytes, edited

RUN_INPUTS = 30
"""A recorder hears so many inputs."""
EMBEDDING = Transcript(
    name="embeddings_text",
    path="/v1/embeddings",
    body=b'{"model":"m","input":["some text",[1,2]]}',
    status=200,
    content_type="application/json",
    answer=b'{"data":[{"embedding":[0.5,1e-3]}],"usage":{"prompt_tokens":8}}',
    forwarded=b"",
    calls=(),
)
SAMPLES: dict[str, list[Transcript]] = {"embeddings": [EMBEDDING]}
for _transcript in TRANSCRIPTS:
    SAMPLES.setdefault(_transcript.dialect, []).append(_transcript)

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 10**6, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, -0.5, 1e300),
    *("", "x", "0", "\x00", "é" * 50, "a" * 3000, "system", "assistant", "model", "tool", "type", "[DONE]", "{}", "["),
    *([], {}, [0], [[]], [{}], [None], ["x"], {"x": 1}, {"": None}, {"type": "text", "text": "x"}, {"type": "x"}),
    *({"id": "x"}, {"index": 0}, {"role": "assistant", "content": [{"type": "x"}]}, {"function": {"name": []}}),
)
_EVENT_END = re.compile(rb"\r\n\r\n|\n\r?\n|\r\r\n?")
_LEAD = re.compile(rb"(?:[\r\n]|:[^\r\n]*[\r\n])*")


class Heard:
    """A recorder, and how many inputs it has heard."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.inputs = 0


def main() -> int:
    return run(__doc__, "dialect", sorted(SAMPLES), fuzz)


def fuzz(dialect: str, inputs: int, seed: int, out: Path, *, begin: Callable[[], Recorder] | None = None) -> int:
    """Feed so many inputs to one dialect and print the outcomes; return how many failed."""
    begin = begin or _recorder
    heard, chunks = Heard(begin()), 0

    def attempt(number: int, chance: random.Random) -> str:
        nonlocal heard, chunks
        if heard.inputs == RUN_INPUTS:
            heard = Heard(begin())
        heard.inputs += 1
        given = damaged(chance.choice(SAMPLES[dialect]), chance)
        pieces = list(_chunks(given.answer, chance))
        chunks += len(pieces)
        outcome = outcome_of(lambda: _hear(given, pieces, heard, chance))
        if outcome.startswith(FAILED):
            heard = Heard(begin())
            keep(out, _files(f"{dialect}-{seed}-{number}", given, outcome), outcome)
        return outcome

    return attempts(dialect, inputs, seed, attempt, beside=lambda: f" in {chunks:,} chunks")


def _recorder() -> Recorder:
    return Recorder(JournalWriter(io.BytesIO()), key=bytes(32))


def _hear(given: Transcript, chunks: list[bytes], heard: Heard, chance: random.Random) -> str:
    recorder = heard.recorder
    exchange = recorder.request(given.path, given.body, at_s=float(heard.inputs))
    if not _is_same_request(exchange, given.body):
        return f"{FAILED}: the request was changed"
    exchange.response(given.status, at_s=heard.inputs + 0.1, content_type=given.content_type)
    forwarded = b"".join(exchange.chunk(chunk, at_s=heard.inputs + 0.2) for chunk in chunks)
    ending = chance.choice((exchange.end, exchange.end, exchange.end, exchange.cancelled, exchange.failed))
    rest = ending(at_s=heard.inputs + 0.3)
    forwarded += rest if isinstance(rest, bytes) else b""
    is_whole = ending == exchange.end
    if not _is_same_answer(
        given.answer, forwarded, is_whole=is_whole, may_withhold=exchange.upstream_body != given.body
    ):
        return f"{FAILED}: the answer was changed"
    if heard.inputs == RUN_INPUTS:
        recorder.close()
    failed = [trouble for trouble in recorder.trouble if "failed" in trouble or "could not" in trouble]
    if failed:
        return f"{FAILED}: {failed[0]}"
    return "recorded" if exchange.recorded else "passed on"


def _is_same_request(exchange: Exchange, body: bytes) -> bool:
    """Whether what is sent upstream is the client's own, but that it may ask for usage."""
    if exchange.upstream_body == body:
        return True
    ours, theirs = orjson.loads(exchange.upstream_body), orjson.loads(body)
    ours.pop("stream_options"), theirs.pop("stream_options", None)
    return bool(ours == theirs) and exchange.recorded


def _is_same_answer(answer: bytes, forwarded: bytes, *, is_whole: bool, may_withhold: bool) -> bool:
    """Whether what was forwarded is the answer, but for events of usage that may be withheld."""
    if answer == forwarded or (not is_whole and answer.startswith(forwarded)):
        return True
    if not may_withhold:
        return False
    place = start = 0
    while start < len(answer):
        border = _EVENT_END.search(answer, start)
        end = border.end() if border else len(answer)
        event = answer[start:end]
        if forwarded.startswith(event, place):
            place += len(event)
        elif place >= len(forwarded) and not is_whole:
            return True
        else:
            lead = _LEAD.match(event)
            kept = event[: lead.end()] if lead else b""
            if b"usage" not in event or not forwarded.startswith(kept, place):
                return not is_whole and event.startswith(forwarded[place:])
            place += len(kept)
        start = end
    return place == len(forwarded)


def _chunks(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Cut an answer: into single bytes, into pieces of some length, or not at all."""
    most = chance.choice((1, 3, 20, 100, 100, 1000, 1 << 20))
    start = 0
    while start < len(data):
        end = start + (chance.randint(1, most) if most < 1 << 20 else most)
        yield data[start:end]
        start = end


def damaged(sample: Transcript, chance: random.Random) -> Transcript:
    """Return a transcript with edits in its request, in its answer, or in both."""
    which = chance.random()
    body, answer, status, kind = sample.body, sample.answer, sample.status, sample.content_type
    if which < 0.5:
        body = edited(body, chance, EDITS)
    if which > 0.3:
        answer = edited(answer, chance, EDITS)
    if chance.random() < 0.05:
        status = chance.choice((0, 200, 204, 302, 400, 429, 500, 529))
    if chance.random() < 0.05:
        kind = chance.choice(("", "text/event-stream", "application/json", "text/plain", "x"))
    return replace(sample, body=body, answer=answer, status=status, content_type=kind)


def _edit_events(data: bytes, chance: random.Random) -> bytes:
    events = re.split(rb"(?<=\n\n)", data)
    place, other = chance.randrange(len(events)), chance.randrange(len(events))
    match chance.randrange(5):
        case 0:
            del events[place]
        case 1:
            events.insert(place, events[other])
        case 2:
            events[place], events[other] = events[other], events[place]
        case 3:
            events[place] = events[place].rstrip(b"\n")
        case _:
            foreign = chance.choice(TRANSCRIPTS).answer
            events.insert(place, chance.choice(re.split(rb"(?<=\n\n)", foreign)))
    return b"".join(events)


def _edit_values(data: bytes, chance: random.Random) -> bytes:
    """Change, remove or add a value in one of the JSON documents, of which each stands in a line or is the whole."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    head, mark, text = lines[place].partition(b"data: ")
    if not mark:
        head, mark, text = b"", b"", lines[place]
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return data
    change_value(document, chance, names=("x", "", "type", "index", "id", "usage", "error", "delta"), values=VALUES)
    lines[place] = head + mark + json.dumps(document, ensure_ascii=chance.random() < 0.5).encode(errors="replace")
    return b"\n".join(lines)


_edit_bytes = partial(
    edit_bytes, written=(b"\xff", b"\x00", b"\r", b"\n", b"\n\n", b": x\n", b"data:", b"{", b"]", b'"')
)
EDITS = (*(_edit_values,) * 6, *(_edit_events,) * 3, *(_edit_bytes,) * 2, cut)


def _files(name: str, given: Transcript, outcome: str) -> dict[str, bytes]:
    kept = {"path": given.path, "status": given.status, "content_type": given.content_type, "outcome": outcome}
    return {
        f"{name}.json": json.dumps(kept).encode(),
        f"{name}.request": given.body,
        f"{name}.answer": given.answer,
    }


if __name__ == "__main__":
    sys.exit(main())
