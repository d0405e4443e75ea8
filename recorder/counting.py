"""Texts that wait to be counted, and counting them in a time that is bounded by their length.

The recorder hands a text out once, when the answer to its call has been forwarded, and forgets it. Two kinds of text
are not counted as they are, because a tokenizer may take long for them:

- a long one: its first `MOST_CHARS` characters are counted, the rest by their ratio;
- a run of `RUN_CHARS` characters and more with no space among them, or of nothing but space: tokenizers merge within
  such a run, in a time that may grow with its square. It is cut, and each cut may be a token too many.

Their counts are estimates and say so.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.recorder.token_counters import TokenCounter

MOST_CHARS = 1 << 18
"""Longer texts are counted in part."""
RUN_CHARS = 1024
"""Longer runs are cut."""
MOST_TOGETHER = 1024
"""So many texts are handed out at once at most."""
MOST_WAITING_CHARS = 1 << 24
"""How much of one run may wait to be counted; what comes on top stays uncounted, so that RAM is bounded."""
REMEMBERED = 1 << 16
"""How many counts are kept for texts that come again, such as all messages behind a line that changes."""

_LONG_RUN = re.compile(rf"(?<!\S)\S{{{RUN_CHARS + 1},}}|(?<!\s)\s{{{RUN_CHARS + 1},}}")
_PIECE = re.compile(rf"(?s).{{1,{RUN_CHARS}}}")


@dataclass(frozen=True, slots=True)
class Uncounted:
    """The text of a part, up to what is counted of it."""

    part: int
    text: str = field(repr=False)
    reasoning: str = field(default="", repr=False)
    """Thinking that was sent back or delivered with it."""
    scale: float = 1.0
    """How much longer the whole is than what is here."""

    @property
    def chars(self) -> int:
        return len(self.text) + len(self.reasoning)


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of a part."""

    part: int
    tokens: int
    """Of its text, without thinking."""
    reasoning_tokens: int = 0
    is_estimate: bool = False
    """Whether the text was too long, or had runs too long, to be counted as it is."""


class WaitingTexts:
    """A bounded line of texts."""

    missed = 0
    """Parts that found the line full."""

    def __init__(self, most_chars: int = MOST_WAITING_CHARS) -> None:
        self._most_chars = most_chars
        self._waiting: deque[Uncounted] = deque()
        self._chars = 0

    def __repr__(self) -> str:
        return f"WaitingTexts({len(self._waiting)})"

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def chars(self) -> int:
        """How many characters wait."""
        return self._chars

    def add(self, part: int, text: str, reasoning: str = "") -> None:
        """Put a part's text in line, unless there is none or the line is full."""
        chars = len(text) + len(reasoning)
        if not chars:
            return
        waiting = Uncounted(part, text[:MOST_CHARS], reasoning[:MOST_CHARS])
        if self._chars + waiting.chars > self._most_chars:
            self.missed += 1
            return
        if chars > waiting.chars:
            waiting = Uncounted(part, waiting.text, waiting.reasoning, chars / waiting.chars)
        self._waiting.append(waiting)
        self._chars += waiting.chars

    def take(self, most_chars: int = MOST_CHARS) -> list[Uncounted]:
        """Return the first texts, one at least, of at most so many characters together; they are gone from here."""
        taken: list[Uncounted] = []
        chars = 0
        while self._waiting and len(taken) < MOST_TOGETHER:
            if taken and chars + self._waiting[0].chars > most_chars:
                break
            taken.append(self._waiting.popleft())
            chars += taken[-1].chars
        self._chars -= chars
        return taken

    def forget(self) -> None:
        """Drop all texts."""
        self._waiting.clear()
        self._chars = 0


class Tally:
    """Count texts with one tokenizer; those that come again are counted once.

    A text is remembered by Python's own keyed hash of it, which is never written.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._known: OrderedDict[tuple[int, int], tuple[int, bool]] = OrderedDict()

    def __repr__(self) -> str:
        return f"Tally({self._counter!r})"

    def count(self, texts: Sequence[Uncounted]) -> list[Counted]:
        """Return the counts of texts in their order."""
        return [self._count_part(text) for text in texts]

    def _count_part(self, part: Uncounted) -> Counted:
        tokens, is_exact = self._count(part.text)
        reasoning, is_exact_too = self._count(part.reasoning)
        return Counted(
            part.part,
            round(tokens * part.scale),
            round(reasoning * part.scale),
            is_estimate=not (is_exact and is_exact_too) or part.scale > 1.0,
        )

    def _count(self, text: str) -> tuple[int, bool]:
        if not text:
            return 0, True
        key = len(text), hash(text)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = count_within_limits(self._counter, text)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return known


def count_within_limits(counter: TokenCounter, text: str) -> tuple[int, bool]:
    """Return the tokens of a text, and whether it was counted as it is; what is long in it is cut."""
    counted = text[:MOST_CHARS]
    pieces = _cut_runs(counted)
    tokens = sum(map(counter.count, pieces))
    if len(text) > len(counted):
        tokens = round(tokens * len(text) / len(counted))
    return tokens, len(pieces) == 1 and len(text) == len(counted)


def _cut_runs(text: str) -> list[str]:
    """Return a text in pieces none of which has a run of more than RUN_CHARS; whole where it has none."""
    pieces: list[str] = []
    start = 0
    for run in _LONG_RUN.finditer(text):
        pieces.append(text[start : run.start()])
        pieces.extend(_PIECE.findall(run.group()))
        start = run.end()
    pieces.append(text[start:])
    return [piece for piece in pieces if piece] if len(pieces) > 1 else pieces
