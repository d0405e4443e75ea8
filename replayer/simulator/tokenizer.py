"""The simulator's own tokenizer: fixed, reversible, about 2.5 characters a token of English or code.

The vocabulary is spelled out by rules, so there is no file to load and nothing is learned:

1. ids 0..15 are control tokens (`CONTROLS`, the rest reserved), 16..271 the 256 bytes;
2. then pieces, in this order: a letter and up to two lower-case letters, one to three digits, one or two ASCII
   punctuation marks, each without and with a leading space; up to two line ends with up to 16 spaces; 1 to 16 spaces;
   1 to 4 tabs.

Text is cut at control tokens first and then greedily, left to right, by one regular expression; what no piece covers
becomes UTF-8 bytes. Hence decode(encode(t)) == t, and because nothing merges across a control token
encode(a + control + b) == encode(a) + [control] + encode(b): what a message costs does not depend on its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import product
from string import ascii_letters, ascii_lowercase, digits, punctuation

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.uint32]

END_OF_TEXT = "<|endoftext|>"
START = "<|im_start|>"
SEPARATOR = "<|im_sep|>"
END = "<|im_end|>"
THINK = "<|think|>"
THINK_END = "<|think_end|>"
TOOL_CALL = "<|tool_call|>"
TOOL_ARGUMENTS = "<|tool_arguments|>"
TOOL_CALL_END = "<|tool_call_end|>"
IMAGE = "<|image|>"
CONTROLS = (END_OF_TEXT, START, SEPARATOR, END, THINK, THINK_END, TOOL_CALL, TOOL_ARGUMENTS, TOOL_CALL_END, IMAGE)

FIRST_BYTE = 16
FIRST_PIECE = FIRST_BYTE + 256

_CONTROL_IDS = {text: number for number, text in enumerate(CONTROLS)}
_CONTROL = re.compile("(" + "|".join(map(re.escape, CONTROLS)) + ")")
_PIECE = re.compile(
    r" ?[A-Za-z][a-z]{0,2}| ?[0-9]{1,3}| ?[!-/:-@\[-`{-~]{1,2}|\n{1,2} {0,16}| {1,16}|\t{1,4}|.",
    re.DOTALL,
)
_CACHED_TEXTS = 2048
"""Messages whose ids are remembered: a conversation sends all of its old ones again with each call."""


def control_id(text: str) -> int:
    """Return the id of a control token."""
    return _CONTROL_IDS[text]


def encode(text: str) -> TokenIds:
    """Return the ids of `text`, in which control tokens may be spelled out."""
    parts = _CONTROL.split(text)
    ids = [_encode_control(part) if at % 2 else _encode_plain(part) for at, part in enumerate(parts) if part]
    return np.concatenate(ids) if ids else np.empty(0, np.uint32)


def decode(ids: Sequence[int] | TokenIds) -> str:
    """Return the text of `ids`; bytes that are no UTF-8 become U+FFFD."""
    return b"".join(map(token_bytes, ids)).decode("utf-8", "replace")


def token_bytes(token: int) -> bytes:
    """Return the bytes that a token stands for; a reserved id stands for none."""
    return _spellings()[token]


@cache
def vocabulary_size() -> int:
    """Return how many ids there are; all smaller ones are valid."""
    return len(_spellings())


@cache
def word_ids() -> range:
    """Return the ids of ' ' and three lower-case letters: any sequence of them survives decoding and encoding."""
    first = _piece_ids()[" aaa"]
    return range(first, first + len(ascii_lowercase) ** 3)


def _encode_control(text: str) -> TokenIds:
    return np.array([_CONTROL_IDS[text]], np.uint32)


@lru_cache(_CACHED_TEXTS)
def _encode_plain(text: str) -> TokenIds:
    known = _piece_ids()
    ids: list[int] = []
    for piece in _PIECE.findall(text):
        token = known.get(piece)
        if token is None:
            ids.extend(FIRST_BYTE + byte for byte in piece.encode("utf-8", "replace"))
        else:
            ids.append(token)
    return np.array(ids, np.uint32)


@cache
def _piece_ids() -> dict[str, int]:
    return {piece: token for token, piece in enumerate(_pieces(), FIRST_PIECE)}


@cache
def _spellings() -> tuple[bytes, ...]:
    controls = [text.encode() for text in CONTROLS] + [b""] * (FIRST_BYTE - len(CONTROLS))
    return (*controls, *(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in _piece_ids()))


def _pieces() -> Iterator[str]:
    for space in ("", " "):
        for length in range(3):  # lower-case words of three letters come last for each first letter: see word_ids
            for first, rest in product(ascii_lowercase, product(ascii_lowercase, repeat=length)):
                yield space + first + "".join(rest)
        for length in range(3):
            for first, rest in product(ascii_letters[26:], product(ascii_lowercase, repeat=length)):
                yield space + first + "".join(rest)
        for length in (1, 2, 3):
            yield from (space + "".join(number) for number in product(digits, repeat=length))
        for length in (1, 2):
            yield from (space + "".join(marks) for marks in product(punctuation, repeat=length))
    yield from ("\n" * ends + " " * spaces for ends in (1, 2) for spaces in range(17))
    yield from (" " * spaces for spaces in range(1, 17))
    yield from ("\t" * tabs for tabs in range(1, 5))
