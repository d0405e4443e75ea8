"""A body that goes on from an earlier one is read in part, and comes to the same prompt as when it is read whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from typing import Any

import orjson
from chat_worlds import TEMPLATES, TOKENIZERS, World, play
from hypothesis import given, settings
from hypothesis import strategies as st
from speech import SPEECHES, Message, Speech

from rotoscope.recorder import Recorder
from rotoscope.traces.journal import CallOpened, PartSeen
from rotoscope.traces.journal_files import JournalWriter, parse_journal


@dataclass(frozen=True)
class Overheard(Speech):
    """A speech whose requests are kept; Anthropic's clients mark the last block of each."""

    speech: Speech = field(default_factory=Speech)
    bodies: list[bytes] = field(default_factory=list)

    def request(self, messages: list[Message], tools: Any) -> Message:
        body = self.speech.request(messages, tools)
        if "max_tokens" in body and body["messages"][-1]["content"]:
            body["messages"][-1]["content"][-1] |= {"cache_control": {"type": "ephemeral"}}
        self.bodies.append(orjson.dumps(body))
        return body

    def answer(self, message: Message, counts: tuple[int, int] | None, name: str) -> Message:
        return self.speech.answer(message, counts, name)


def prompts(path: str, *bodies: bytes) -> Iterator[str]:
    """Yield the digest of each prompt of a run."""
    file = BytesIO()
    recorder = Recorder(JournalWriter(file), key=bytes(32))
    for number, body in enumerate(bodies):
        recorder.request(path, body, at_s=float(number))
    assert recorder.trouble == []
    records = parse_journal(file.getvalue()).records
    digests = [record.digest for record in records if isinstance(record, PartSeen)]
    yield from (digests[record.head] for record in records if isinstance(record, CallOpened))


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(sorted(SPEECHES)))
def test_a_body_that_is_read_in_part_is_the_same_prompt(seed: int, name: str) -> None:
    random, overheard = Random(seed), Overheard(path=SPEECHES[name].path, speech=SPEECHES[name])
    world = World(random, TEMPLATES["trimmed"], TOKENIZERS["words"], thinks=True, speech=overheard)
    play(world, calls=random.randint(2, 10), sends_thinking_back=random.random() < 0.5)

    assert list(prompts(overheard.path, *overheard.bodies)) == [
        digest for body in overheard.bodies for digest in prompts(overheard.path, body)
    ]
