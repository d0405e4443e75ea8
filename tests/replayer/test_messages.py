from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from chat_prompts import ToyTokenizer
from replay_doubles import answered_in_pieces

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.messages import Messages
from rotoscope.replayer.words import Words

TEMPLATE = ChatTemplate(head=2, turn=2, back=1, tail=2, common=2)
WORDS = ["the", "cat", "sat", "dog"]


def messages(tokenizer: ToyTokenizer | None = None) -> Messages:
    return Messages(Words([f" {word}" for word in WORDS]), TEMPLATE, tokenizer)


def answer(one: Messages, exchange: Exchange, *taken_up: int) -> list[int] | None:
    ids = asyncio.run(one.whole_answer(exchange, taken_up=set(taken_up)))
    return None if ids is None else np.asarray(ids).tolist()


def tokenizer() -> ToyTokenizer:
    return ToyTokenizer(TEMPLATE, WORDS)


def test_the_first_prompt_is_one_of_a_few_words() -> None:
    prompt, ids = messages().first_prompt()

    assert json.loads(prompt) == [{"role": "user", "content": "the cat sat dog"}]
    assert ids.tolist() == [4, 5, 0, 1, 2, 3, 6, 7]


def test_an_answer_of_a_piece_a_token_is_known_by_its_pieces() -> None:
    assert answer(messages(), answered_in_pieces(["cat", " the", "!"]), 3) == [1, 0, 9]


def test_an_answer_of_words_is_not_tried() -> None:
    asked = tokenizer()

    assert answer(messages(asked), answered_in_pieces(["cat", " the"]), 2) == [1, 0]
    assert asked.asked == 0


@pytest.mark.parametrize(
    ("pieces", "survives"),
    [
        (["cat", "!"], True),
        (["cat", " cow"], False),
        ([" the", "!"], True),
        (["!", "\n"], False),
    ],
)
def test_what_later_prompts_hold_of_an_answer_must_be_as_many_tokens_when_it_is_sent_back(
    pieces: list[str], survives: bool
) -> None:
    known = answer(messages(tokenizer()), answered_in_pieces(pieces), len(pieces))

    assert (known is not None) is survives


def test_every_part_that_later_prompts_hold_is_tried() -> None:
    pieces = ["!", " c", "at"]  # a word as a whole, and two tokens before the last piece

    assert answer(messages(tokenizer()), answered_in_pieces(pieces), 1) is not None
    assert answer(messages(tokenizer()), answered_in_pieces(pieces), 1, 3) is None


def test_only_what_later_prompts_hold_is_tried() -> None:
    asked = tokenizer()

    assert answer(messages(asked), answered_in_pieces(["cat", " cow"]), 1) is not None
    assert answer(messages(asked), answered_in_pieces(["moo", " cow"]), 0) is not None
    assert answer(messages(asked), answered_in_pieces(["moo", " cow"])) == []
    assert asked.asked == 0


def test_without_a_tokenizer_answers_are_believed() -> None:
    assert answer(messages(), answered_in_pieces(["cat", " cow"]), 2) is not None


def test_without_a_tokenizer_answers_of_nothing_but_spaces_are_not_sent_back() -> None:
    assert answer(messages(), answered_in_pieces(["\n", " "]), 2) is None
    assert answer(messages(), answered_in_pieces(["\n", "cat"]), 1, 2) is None
    assert answer(messages(), answered_in_pieces(["\n", "cat"]), 2) is not None


def test_what_has_arrived_is_not_sent_back_as_long_as_it_is_nothing_but_spaces() -> None:
    exchange = answered_in_pieces(["\n", "cat"])

    assert messages().partial_answer(exchange, taken_up={1}) is None
    assert messages().partial_answer(exchange, taken_up={2}) is not None


def test_an_answer_in_fewer_pieces_than_tokens_is_taken_up_as_a_whole_or_not_at_all() -> None:
    exchange = answered_in_pieces(["cat the", " sat"])
    exchange.completion_tokens = 3

    assert answer(messages(tokenizer()), exchange, 3) == [9, 10, 10]
    assert answer(messages(tokenizer()), exchange, 0, 3) == [9, 10, 10]
    assert answer(messages(tokenizer()), exchange, 2) is None
    assert answer(messages(tokenizer()), exchange, 2, 3) is None
    assert answer(messages(), exchange, 3) is None


def test_an_answer_without_text_is_not_known_where_it_is_needed() -> None:
    exchange = answered_in_pieces([])
    exchange.completion_tokens = 3

    assert answer(messages(), exchange, 3) is None
    assert answer(messages(), exchange, 0) == answer(messages(), exchange) == []
    assert messages().partial_answer(exchange, taken_up={3}) is None


def test_what_has_arrived_of_an_answer_is_taken_for_a_token_a_piece() -> None:
    ids = messages().partial_answer(answered_in_pieces(["cat", " the"]), taken_up={5})

    assert ids is not None
    assert np.asarray(ids).tolist() == [1, 0]


def test_what_has_arrived_in_pieces_of_several_tokens_is_not_known() -> None:
    exchange = answered_in_pieces(["cat the", " sat"])
    exchange.completion_tokens = 3

    assert messages().partial_answer(exchange, taken_up={5}) is None
