from __future__ import annotations

import asyncio
from itertools import product

import pytest
from chat_prompts import ToyTokenizer

from rotoscope.replayer.calibration import MOST_WORDS, Calibration, calibrate
from rotoscope.replayer.candidates import COMMON, families
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.spelling import Spelling
from rotoscope.replayer.tokenizing import Ids, Messages
from rotoscope.traces import RunFailed

TEMPLATES = [
    ChatTemplate(head=4, turn=3, back=2, tail=3, common=3),
    ChatTemplate(head=1, turn=1, back=2, tail=1, common=1),
    ChatTemplate(head=20, turn=3, back=5, tail=5, common=3),
    ChatTemplate(head=3, turn=5, back=4, tail=3, common=2),
]
SOME = ["".join(word) for word in product("bcdfg", "aeiou", "lmnr")]
"""Hundred words."""


class Silent:
    """A server that tells nothing of its tokens."""

    async def text(self, text: str) -> Ids | None:
        return None

    async def prompt(self, messages: Messages) -> Ids | None:
        return None


def calibrated(tokenizer: ToyTokenizer) -> Calibration:
    async def nobody(messages: Messages) -> int | None:
        raise AssertionError("usage was asked for")

    return asyncio.run(calibrate(tokenizer, nobody))


def calibrated_by_usage(tokenizer: ToyTokenizer) -> tuple[Calibration, int]:
    """Return the calibration and how many requests it took."""
    asked = 0

    async def count(messages: Messages) -> int | None:
        nonlocal asked
        asked += 1
        return tokenizer.count(messages)

    return asyncio.run(calibrate(Silent(), count)), asked


def words_of(calibration: Calibration) -> set[str]:
    return {calibration.words.word(number).decode().strip() for number in range(len(calibration.words))}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_tokenizer_tells_words_and_template(template: ChatTemplate) -> None:
    found = calibrated(ToyTokenizer(template, SOME))

    assert found.template == template
    assert words_of(found) <= set(SOME)
    assert len(found.words) >= len(SOME) - 1
    assert found.tokens_from == "tokenizer"


def test_it_takes_a_handful_of_questions() -> None:
    tokenizer = ToyTokenizer(TEMPLATES[0], SOME)
    calibrated(tokenizer)

    assert tokenizer.asked <= 8


def test_words_that_fall_apart_at_the_start_of_a_message_are_left_out() -> None:
    bad = SOME[5:60:7]
    found = calibrated(ToyTokenizer(TEMPLATES[0], SOME, not_at_start=bad))

    assert found.template == TEMPLATES[0]
    assert not words_of(found) & set(bad)


def test_words_that_merge_with_others_are_left_out() -> None:
    pair = f"{SOME[10]} {SOME[11]}"
    found = calibrated(ToyTokenizer(TEMPLATES[0], SOME[::3] + pair.split(), merged=pair))

    assert not set(pair.split()) <= words_of(found)


def test_no_more_words_are_taken_than_are_needed() -> None:
    many = [word.strip() for word in families()[0]]

    assert len(calibrated(ToyTokenizer(TEMPLATES[0], many)).words) in (MOST_WORDS - 1, MOST_WORDS)


def test_where_no_letters_are_words_characters_are() -> None:
    found = calibrated(ToyTokenizer(TEMPLATES[0], families()[1]))

    assert found.words.space == 0
    assert len(found.words) >= MOST_WORDS - 1


def test_usage_tells_the_number_of_the_templates_tokens() -> None:
    template = ChatTemplate(head=6, turn=4, back=3, tail=4, common=4)
    found, asked = calibrated_by_usage(ToyTokenizer(template, [word.strip() for word in COMMON]))

    assert found.tokens_from == "usage"
    assert words_of(found) == {word.strip() for word in COMMON}
    assert found.template == template
    assert asked == 5


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_sums_by_usage_are_right_even_where_the_parts_are_assumed(template: ChatTemplate) -> None:
    found, _ = calibrated_by_usage(ToyTokenizer(template, [word.strip() for word in COMMON]))

    assert found.template.least_prompt == template.least_prompt
    assert found.template.turn + found.template.back == template.turn + template.back


@pytest.mark.parametrize(
    "template",
    [
        ChatTemplate(head=0, turn=0, back=0, tail=0, common=0),
        ChatTemplate(head=1, turn=4, back=4, tail=0, common=0),
        ChatTemplate(head=2, turn=1, back=0, tail=1, common=1),
    ],
)
def test_a_server_that_counts_hardly_any_template_gets_messages_all_the_same(template: ChatTemplate) -> None:
    found, _ = calibrated_by_usage(ToyTokenizer(template, [word.strip() for word in COMMON]))

    sizes = found.template
    assert min(sizes.head, sizes.turn, sizes.back) >= 1
    assert sizes.least_prompt == max(template.least_prompt, 2)
    assert sizes.turn + sizes.back == max(template.turn + template.back, 2)
    Spelling(found.words, sizes)  # has a place for all markup


def test_a_template_without_tokens_between_messages_is_measured_out_by_usage() -> None:
    tokenizer = ToyTokenizer(ChatTemplate(head=3, turn=0, back=0, tail=0, common=0), [word.strip() for word in COMMON])

    async def count(messages: Messages) -> int | None:
        return tokenizer.count(messages)

    assert asyncio.run(calibrate(tokenizer, count)).tokens_from == "usage"


def test_common_words_that_count_as_more_than_a_token_are_left_out() -> None:
    common = [word.strip() for word in COMMON]
    found, _ = calibrated_by_usage(ToyTokenizer(TEMPLATES[0], [*common[:40], *common[41:]]))

    assert common[40] not in words_of(found)
    assert len(found.words) >= len(common) - 16


def test_where_all_common_words_count_as_more_characters_are_taken() -> None:
    found, _ = calibrated_by_usage(ToyTokenizer(TEMPLATES[0], []))

    assert found.words.space == 0


def test_a_server_that_tells_nothing_at_all_is_refused() -> None:
    async def count(messages: Messages) -> int | None:
        return None

    with pytest.raises(RunFailed, match="reports no prompt tokens"):
        asyncio.run(calibrate(Silent(), count))
