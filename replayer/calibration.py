"""Find the words of a server and the size of its chat template before a run, in a handful of requests.

With a tokenizer to ask:

1. Candidates are tokenized all at once, a comma after each; those that are one token between two commas are kept, the
   most usual ones of the vocabulary first.
2. Prompts that differ in one message only show where the template's tokens begin and end.
3. A long conversation has a message of each word: at the start of a message it is one token too, or it is dropped, and
   the template is the same all along.
4. One long message of words drawn at random has the expected tokens; words that merge with others are dropped.

Without one, by the server's usage: common words are taken, of which each must count as one token. Usage gives the template's tokens of a prompt and of a pair of messages, but not how they fall on both
sides of a content: this is assumed to be even. Lengths are exact all the same; the places where prompts part are not.
A server that counts fewer tokens of a template than the markup of messages needs (one before the first and at each
change of the speaker) counts less than is planned: each request reports by how much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from rotoscope.replayer.candidates import COMMON, families
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.tokenizing import Ids, Messages, Tokenizer, conversation
from rotoscope.replayer.words import Words
from rotoscope.traces.errors import RunFailed

Source: TypeAlias = Literal["tokenizer", "usage"]
CountTokens: TypeAlias = Callable[[Messages], Awaitable[int | None]]
"""Sends messages for an answer of one token and returns the prompt's tokens by usage."""

MOST_WORDS = 400
_FEWEST_WORDS = 32
_LONG_TEXT_WORDS = 4096
_ROUNDS = 6
_WORDS_AT_ONCE = 16
_SEED = 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known of a server's tokens."""

    words: Words
    template: ChatTemplate
    tokens_from: Source
    """What told of words and template."""


async def calibrate(tokenizer: Tokenizer, count_tokens: CountTokens, *, words: Sequence[str] = ()) -> Calibration:
    """Ask; raise RunFailed where no words of one token each are found.

    `words` are candidates to try first where only the usage tells of tokens.
    """
    by_tokenizer = await _by_tokenizer(tokenizer)
    if by_tokenizer is not None:
        return by_tokenizer
    words = await _words_by_usage(count_tokens, words)
    return Calibration(Words(words), await _template_by_usage(words, count_tokens), "usage")


async def _by_tokenizer(tokenizer: Tokenizer) -> Calibration | None:
    """Calibrate by a tokenizer; None where it does not answer."""
    for family in families():
        singles = await _singles(tokenizer, family)
        if singles is None:
            return None
        if len(singles) < _FEWEST_WORDS:
            continue
        measured = await _template_by_tokenizer(tokenizer, list(singles))
        if measured is None:
            return None
        words = await _lasting(tokenizer, measured, singles)
        if len(words) >= _FEWEST_WORDS:
            return Calibration(Words(words), measured.template, "tokenizer")
    raise RunFailed(
        f"fewer than {_FEWEST_WORDS} words are one token each all along a conversation: replay with --api completions"
    )


async def _singles(tokenizer: Tokenizer, family: Sequence[str]) -> dict[str, int] | None:
    """Return the candidates that are one token, with its id, by rising id; None where the tokenizer does not answer."""
    ids = await tokenizer.text(",".join(family))
    if ids is None:
        return None
    values, counts = np.unique(ids, return_counts=True)
    for comma in values[counts == len(family) - 1]:
        commas = np.flatnonzero(ids == comma)
        starts, stops = np.append(0, commas + 1), np.append(commas, len(ids))
        alone = np.flatnonzero(stops - starts == 1)
        by_id = {int(ids[starts[place]]): family[place] for place in alone.tolist()}
        return {by_id[one]: one for one in sorted(by_id)}
    return {}


@dataclass(frozen=True, slots=True)
class _Borders:
    """A template as ids."""

    template: ChatTemplate
    turn: tuple[int, ...]
    back: tuple[int, ...]


async def _template_by_tokenizer(tokenizer: Tokenizer, words: Sequence[str]) -> _Borders | None:
    """Compare prompts that differ in one content; None where the tokenizer knows none, or one without tokens somewhere."""
    a, b, c, d = _unlike(words)
    one, other = await _prompt(tokenizer, a), await _prompt(tokenizer, b)
    three, third = await _prompt(tokenizer, a, c, b), await _prompt(tokenizer, a, d, b)
    if one is None or other is None or three is None or third is None:
        return None
    head, tail = _common(one, other), _common(one[::-1], other[::-1])
    to_turn, a_tokens, b_tokens = _common(three, third), len(one) - head - tail, len(other) - head - tail
    turn = three[head + a_tokens : to_turn]
    after = _common(three[::-1], third[::-1])
    back = three[len(three) - after :][: after - b_tokens - tail]
    common = _common(turn, one[len(one) - tail :])
    if not (head and len(turn) and len(back)):
        return None
    template = ChatTemplate(head=head, turn=len(turn), back=len(back), tail=tail, common=common)
    return _Borders(template, tuple(turn.tolist()), tuple(back.tolist()))


async def _lasting(tokenizer: Tokenizer, borders: _Borders, singles: dict[str, int]) -> list[str]:
    """Return the words that stay one token at the start of a message and among any others."""
    words = list(singles)[:MOST_WORDS]
    words = words[: len(words) - (len(words) % 2 == 0)]
    ids = await _prompt(tokenizer, *words)
    words = [] if ids is None else _alone(ids.tolist(), words, borders)
    random = np.random.default_rng(_SEED)
    for _ in range(_ROUNDS):
        if len(words) < _FEWEST_WORDS:
            break
        drawn = random.integers(0, len(words), _LONG_TEXT_WORDS)
        expected = np.array([singles[words[one]] for one in drawn])
        ids = await _prompt(tokenizer, "".join(words[one] for one in drawn))
        if ids is None:
            break
        end = len(ids) - borders.template.tail
        found = ids[borders.template.head + 1 : end]
        if np.array_equal(found, expected[1:]):
            return words
        merged = _common(found, expected[1:])
        bad = {words[one] for one in drawn[merged : merged + 2]}
        words = [word for word in words if word not in bad]
    return []


def _alone(ids: list[int], words: Sequence[str], borders: _Borders) -> list[str]:
    """Return the words that are one token in a conversation in which each is a message."""
    found, at = [], borders.template.head
    for number, word in enumerate(words):
        border = list(borders.back if number % 2 else borders.turn)
        stop = at + 1
        if number == len(words) - 1:
            stop = len(ids) - borders.template.tail
        else:
            while ids[stop : stop + len(border)] != border and stop < len(ids):
                stop += 1
        if stop == at + 1:
            found.append(word)
        at = stop + len(border)
    return found


async def _words_by_usage(count_tokens: CountTokens, candidates: Sequence[str]) -> list[str]:
    """Return words of the first family that count as one token each."""
    own = [candidates[:MOST_WORDS]] if candidates else []
    for family in (*own, COMMON, *(family[:MOST_WORDS] for family in families()[1:])):
        words = await _counted_as_one(count_tokens, family)
        if len(words) >= _FEWEST_WORDS:
            return words
    raise RunFailed("no words of one token each are known for this server: give its tokenizer.json with --tokenizer")


async def _counted_as_one(count_tokens: CountTokens, words: Sequence[str]) -> list[str]:
    """Return the words that count like the first one; none if that is more than a token."""
    one, many = await _count(count_tokens, words[0]), await _count(count_tokens, words[0] * len(words))
    if many - one != len(words) - 1:
        return []
    if await _count(count_tokens, "".join(words)) == many:
        return list(words)
    kept: list[str] = []
    for start in range(0, len(words), _WORDS_AT_ONCE):
        some = words[start : start + _WORDS_AT_ONCE]
        if await _count(count_tokens, "".join(some)) == one + len(some) - 1:
            kept += some
    return kept


async def _template_by_usage(words: Sequence[str], count_tokens: CountTokens) -> ChatTemplate:
    a, b, c = words[:3]
    one = await _count(count_tokens, a)
    three = await _count(count_tokens, a, b, c)
    around, between = max(one - 1, 1), max(three - one - 2, 2)
    tail = min((between + 1) // 2, around - 1)
    turn = max(tail, 1)
    return ChatTemplate(head=around - tail, turn=turn, back=between - turn, tail=tail, common=tail)


async def _count(count_tokens: CountTokens, *contents: str) -> int:
    tokens = await count_tokens(conversation(*(content.strip() for content in contents)))
    if tokens is None:
        raise RunFailed("the server reports no prompt tokens: prompts of messages cannot be measured out for it")
    return tokens


async def _prompt(tokenizer: Tokenizer, *contents: str) -> Ids | None:
    return await tokenizer.prompt(conversation(*(content.strip() for content in contents)))


def _unlike(words: Sequence[str]) -> list[str]:
    """Return four words of which no two begin or end alike."""
    found: list[str] = []
    for word in words:
        if all(word.strip()[0] != one.strip()[0] and word[-1] != one[-1] for one in found):
            found.append(word)
        if len(found) == 4:
            return found
    raise RunFailed("the server's tokenizer has too few words of one token: replay with --api completions")


def _common(a: Ids, b: Ids) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
