"""What a server makes of counted texts: tokens that its template adds, and its tokens for one of ours.

P of a call is taken as `once + message * parts + call * answers that call tools + ratio * size`, with an answer's header
behind it, and O of a call as `ratio * size`, with `call` where it calls tools. The four are learnt from the calls of a domain whose usage was told, by recursive least squares that
begin with what is usual, so that one call is enough to lean on and many leave nothing of the beginning. A ratio that
differs from one by less than `SAME_RATIO` is one: the tokenizer at hand is then taken for the server's.

Of two tokenizers that differ, the ratio is not the same for all texts. The prompts of a conversation all begin alike, so
the least squares make of the ratio of that beginning something that is added once, which would then move the places in
it. Where that comes to more than templates add, the fit is made again with sizes that are less certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

ANSWER_HEADER_TOKENS = 3.0
"""What a template usually writes before an answer."""
MESSAGE_TOKENS = 4.0
"""What a template usually adds to a message."""
CALL_TOKENS = 4.0
"""What it usually adds to the tool calls of an answer."""
SAME_RATIO = 0.01
MOST_ONCE_TOKENS = 100.0
"""Where the tokenizers differ, more than that, or less than as much below zero, is theirs and not the template's."""
UNEVENNESS = 0.01
"""How far the ratio may usually be off for one text, where it is not one."""
MOST_OBSERVATIONS = 2000
"""So many of them tell all there is to learn; of more, some are taken from beginning to end."""
LEAST_RATIO, GREATEST_RATIO = 0.05, 20.0

_USUAL = (0.0, MESSAGE_TOKENS, CALL_TOKENS, 1.0)
_DEVIATIONS = (50.0, 2.0, 5.0)
"""How far what is added once, to a message and to tool calls may usually be from that."""
COUNTED_DEVIATION = 0.15
"""How far the ratio may usually be from one, between two tokenizers."""
BYTES_DEVIATION = 0.5
"""The same for sizes by bytes."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Tokens of a server's prompts and outputs."""

    once: float = 0.0
    """Added to every prompt."""
    message: float = MESSAGE_TOKENS
    """Added to each part."""
    call: float = CALL_TOKENS
    """Added to each answer that calls tools."""
    ratio: float = 1.0
    """Of the server's tokens to those of our sizes."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the server counted, and what we know of the text."""

    tokens: float
    """Of a prompt less the answer's header, or of an output."""
    size: float
    parts: int
    """0 for an output."""
    answers_with_calls: int = 0
    noise: float = 1.0
    """How many tokens it may usually be off."""


def learn(observations: Iterable[Observation], *, ratio_deviation: float) -> Rendering:
    """Return what a domain's usage tells; what is usual where it tells nothing."""
    seen = list(observations)
    seen = seen[:: 1 + len(seen) // MOST_OBSERVATIONS]
    *added, ratio = _fit(seen, (*_DEVIATIONS, ratio_deviation))
    if ratio_deviation == COUNTED_DEVIATION and abs(ratio - 1) < SAME_RATIO:
        *added, ratio = _fit(seen, (*_DEVIATIONS, 0.0))
    elif abs(added[0]) > MOST_ONCE_TOKENS:
        *added, ratio = _fit(_as_uneven(seen), (*_DEVIATIONS, ratio_deviation))
    once, message, call = (max(0.0, tokens) for tokens in added)
    return Rendering(once, message, call, min(max(ratio, LEAST_RATIO), GREATEST_RATIO))


def _as_uneven(seen: Sequence[Observation]) -> list[Observation]:
    """Return observations as uncertain as they are where two tokenizers differ: by more for one text than for another.

    What differs at the start of a conversation is in all its prompts, so that many of them tell little more than one, and
    would make of it something that is added once.
    """
    prompts = sum(1 for one in seen if one.parts)
    return [replace(one, noise=one.noise + UNEVENNESS * one.size * sqrt(prompts or 1)) for one in seen]


def _fit(observations: Iterable[Observation], deviations: Sequence[float]) -> Sequence[float]:
    """Return the four numbers by recursive least squares from their usual values and deviations."""
    values = list(_USUAL)
    spread = [[d * d if i == j else 0.0 for j in range(len(values))] for i, d in enumerate(deviations)]
    for seen in observations:
        x = (1.0 if seen.parts else 0.0, float(seen.parts), float(seen.answers_with_calls), seen.size)
        along = [sum(a * b for a, b in zip(row, x, strict=True)) for row in spread]
        width = sum(a * b for a, b in zip(along, x, strict=True)) + seen.noise**2
        miss = seen.tokens - sum(a * b for a, b in zip(values, x, strict=True))
        values = [value + gain / width * miss for value, gain in zip(values, along, strict=True)]
        spread = [
            [s - a * b / width for s, b in zip(row, along, strict=True)] for row, a in zip(spread, along, strict=True)
        ]
    return values
