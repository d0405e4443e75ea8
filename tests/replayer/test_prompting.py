from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import aiohttp
import pytest
from chat_prompts import ToyTokenizer

from rotoscope.replayer.backends.apis import api_named
from rotoscope.replayer.candidates import COMMON
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.prompting import Prompting, choose_prompting
from rotoscope.replayer.rendering import TOKEN_LISTS
from rotoscope.replayer.server import Server
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces import RunFailed, UnusableInput

TEMPLATE = ChatTemplate(head=6, turn=4, back=3, tail=4, common=4)


@dataclass
class Counting:
    """A server that counts the tokens of messages, and some more with each prompt from the n-th on."""

    more: int = 0
    more_from: int = 5
    failure: Failure | None = None
    asked: list[Exchange] = field(default_factory=list)
    tokenizer: ToyTokenizer = field(default_factory=lambda: ToyTokenizer(TEMPLATE, [word.strip() for word in COMMON]))

    async def perform(self, exchange: Exchange) -> Failure | None:
        exchange.sent_s, exchange.first_token_s = 1.0, 2.0
        exchange.prompt_tokens = self.tokenizer.count(json.loads(exchange.prompt))
        exchange.prompt_tokens += self.more if len(self.asked) >= self.more_from else 0
        self.asked.append(exchange)
        return self.failure


def chosen(
    api: str, server: Counting, *, vocabulary: Vocabulary | None = None, tokenizer: Path | None = None
) -> tuple[Prompting, tuple[str, ...]]:
    """Return how prompts are written for a server that has no tokenizer to ask, and the notes of it."""
    notes = Notes(lambda text: None)

    async def main() -> Prompting:
        options = ReplayOptions(url="http://127.0.0.1:1", api=api, vocabulary=vocabulary, tokenizer=tokenizer)
        async with aiohttp.ClientSession() as http:
            known = Server("m", vocabulary=Vocabulary(5, 50))
            return await choose_prompting(api_named(api), options, known, notes, http=http, backend=server)

    return asyncio.run(main()), notes.kept


def test_token_ids_are_those_of_the_server_and_nothing_is_asked() -> None:
    server = Counting()
    prompting, notes = chosen("completions", server)

    assert (prompting.rendering, prompting.vocabulary) == (TOKEN_LISTS, Vocabulary(5, 50))
    assert prompting.calibration is None
    assert server.asked == []
    assert notes == ()


def test_messages_are_made_of_the_words_that_are_found_and_tried_once() -> None:
    server = Counting()
    prompting, notes = chosen("chat", server)

    assert prompting.vocabulary == Vocabulary(0, len(COMMON))
    assert prompting.calibration is not None
    assert prompting.calibration.template == TEMPLATE
    assert prompting.first is server.asked[-1]
    assert len(prompting.first_ids) == server.asked[-1].prompt_tokens
    assert all(exchange.output_tokens == 1 for exchange in server.asked)
    assert len(notes) == 1
    assert "is assumed" in notes[0]


def test_tokens_that_the_first_prompt_has_beside_what_was_found_are_the_templates() -> None:
    server = Counting(more=1)
    prompting, notes = chosen("chat", server)

    assert prompting.calibration is not None
    assert prompting.calibration.template == ChatTemplate(head=7, turn=4, back=3, tail=4, common=4)
    assert len(prompting.first_ids) == server.asked[-1].prompt_tokens
    assert any("+1 tokens" in note for note in notes)


def test_a_vocabulary_is_of_no_use_for_messages() -> None:
    with pytest.raises(UnusableInput, match="--vocab names token ids, and chat takes none"):
        chosen("chat", Counting(), vocabulary=Vocabulary(5, 50))


def test_words_are_taken_from_a_tokenizer_file_where_the_server_has_no_tokenizer_to_ask(tmp_path: Path) -> None:
    words = ["".join(word) for word in product("bcdfg", "aeiou", "lmnr")]
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"vocab": [[f"\u2581{word}", 0.0] for word in words]}}))
    prompting, _ = chosen("chat", Counting(tokenizer=ToyTokenizer(TEMPLATE, words)), tokenizer=file)

    assert prompting.calibration is not None
    assert list(prompting.calibration.words.first_numbers) == words
    assert prompting.calibration.template == TEMPLATE


def test_a_tokenizer_file_is_of_no_use_for_token_ids(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="--tokenizer is for words, and completions takes token ids"):
        chosen("completions", Counting(), tokenizer=tmp_path)


def test_a_tokenizer_file_may_be_given_where_ids_are_tried_first(tmp_path: Path) -> None:
    notes = Notes(lambda text: None)

    async def main() -> Prompting:
        options = ReplayOptions(url="http://127.0.0.1:1", tokenizer=tmp_path / "tokenizer.json")
        async with aiohttp.ClientSession() as http:
            known = Server("m", vocabulary=Vocabulary(5, 50))
            api = api_named("completions")
            return await choose_prompting(api, options, known, notes, http=http, backend=Counting())

    assert asyncio.run(main()).rendering is TOKEN_LISTS


def test_a_first_request_that_fails_ends_the_run() -> None:
    with pytest.raises(RunFailed, match=r"failed \(not_found\): check --api, --url and --model"):
        chosen("chat", Counting(failure=Failure(FailureKind.NOT_FOUND, 404)))
