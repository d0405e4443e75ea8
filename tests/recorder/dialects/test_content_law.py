"""Nothing that anybody said is in what a recorder writes or tells, in any dialect."""

from __future__ import annotations

import base64
import hashlib
import logging
from io import BytesIO
from typing import Any

import orjson
import pytest
from speech import SPEECHES, Message, Speech, StatefulResponses

from rotoscope.recorder import Recorder
from rotoscope.traces import dumps
from rotoscope.traces.journal_files import JournalWriter

CANARY = "CANARY-5f0d-zwölf"
TOOLS = [{"type": "function", "function": {"name": f"{CANARY}-tool", "description": CANARY, "parameters": {CANARY: 1}}}]
CALL = {
    "id": f"{CANARY}-id",
    "function": {"name": f"{CANARY}-tool", "arguments": orjson.dumps({CANARY: CANARY}).decode()},
}
ANSWER: Message = {
    "role": "assistant",
    "content": f"said {CANARY}",
    "reasoning_content": f"thought {CANARY}",
    "tool_calls": [CALL],
}
TALK: list[Message] = [
    {"role": "system", "content": f"be {CANARY}"},
    {"role": "user", "content": f"ask {CANARY}"},
    ANSWER,
    {"role": "tool", "tool_call_id": f"{CANARY}-id", "content": f"found {CANARY}"},
]
HEADERS = {"x-rotoscope-branch": CANARY, "session-id": CANARY, "x-codex-turn-metadata": CANARY, "authorization": CANARY}
ENDINGS = ["end", "cancelled", "failed", "refused", "damaged"]


def spellings() -> list[bytes]:
    """Return how a canary might be written."""
    data = CANARY.encode()
    digests = [hashlib.new(name, data).hexdigest().encode() for name in ("md5", "sha1", "sha256", "blake2b")]
    return [
        data,
        orjson.dumps(CANARY)[1:-1],
        b"CANARY",
        b"zw\\u00f6lf",
        base64.b64encode(data)[:16],
        data.hex().encode(),
        *digests,
    ]


def talk(recorder: Recorder, speech: Speech, ending: str) -> None:
    """Make two calls; the second goes on from the first."""
    for at_s, count in enumerate((2, 4)):
        body = orjson.dumps(speech.request(TALK[:count], TOOLS) | {"metadata": {"user_id": f"user_session_{CANARY}"}})
        exchange = recorder.request(f"{speech.path}?key={CANARY}", body, at_s=float(at_s), headers=HEADERS)
        assert exchange.recorded
        answer = orjson.dumps(speech.answer(ANSWER, (50 + at_s, 9), f"{CANARY}-{at_s}"))
        answer = {"refused": orjson.dumps({"error": {"message": CANARY}}), "damaged": b"{" + answer}.get(ending, answer)
        exchange.response(429 if ending == "refused" else 200, at_s=at_s + 0.1, content_type="application/json")
        exchange.chunk(answer, at_s=at_s + 0.2)
        (exchange.end if ending not in ("cancelled", "failed") else getattr(exchange, ending))(at_s=at_s + 0.3)
        assert CANARY not in repr(exchange)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("speech", [*SPEECHES.values(), StatefulResponses()], ids=[*SPEECHES, "stateful"])
def test_nothing_that_was_said_is_written_or_told(speech: Speech, ending: str, caplog: Any) -> None:
    file = BytesIO()
    recorder = Recorder(JournalWriter(file))
    with caplog.at_level(logging.DEBUG):
        talk(recorder, speech, ending)
        recorder.request(speech.path, f'{{"{CANARY}"'.encode(), at_s=9.0)
        trace = recorder.close()
    written = file.getvalue() + (dumps(trace) if trace else b"")
    told = "\n".join([*recorder.trouble, repr(recorder), caplog.text]).encode()

    assert trace is not None or ending == "refused"
    assert [spelling for spelling in spellings() if spelling in written + told] == []
