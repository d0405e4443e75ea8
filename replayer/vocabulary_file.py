"""Find words in the vocabulary of a local tokenizer: a `tokenizer.json` of the Hugging Face libraries, or a `.tiktoken`.

Only the vocabulary is read. A word of three letters is taken where it is a token both with a space before it and, in
vocabularies of bytes, without; where there are none, single characters are. The server counts them before they are used.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from rotoscope.traces.errors import UnusableInput

_SPACES = ("\u0120", "\u2581")
"""How a space before a word is written: in vocabularies of bytes, and in those of SentencePiece."""
_WORD = re.compile(r" [a-z]{3}")
_FEWEST_WORDS = 32


def words_in(path: Path) -> list[str]:
    """Return the words of a tokenizer, the most usual first; raise UnusableInput where none are found."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnusableInput(f"cannot read the tokenizer {str(path)!r}: {error.strerror}") from error
    tokens = _tokens_of_json(content) if content.lstrip()[:1] == b"{" else _tokens_of_tiktoken(content)
    if tokens is None:
        raise UnusableInput(f"{str(path)!r} is neither a tokenizer.json nor a .tiktoken file")
    known = set(tokens)
    words = [token for token in tokens if _WORD.fullmatch(token) and _may_begin(token, known)]
    if len(words) < _FEWEST_WORDS:
        words = [token for token in tokens if len(token) == 1 and len(token.encode()) == 3]
    if len(words) < _FEWEST_WORDS:
        raise UnusableInput(f"the tokenizer {str(path)!r} has no words of one token each")
    return words


def _may_begin(word: str, known: set[str]) -> bool:
    """Whether a word is a token at the start of a message too, where a vocabulary of bytes has it without its space."""
    return word[1:] in known or f"{_SPACES[1]}{word[1:]}" in known


def _tokens_of_json(content: bytes) -> list[str] | None:
    """Return the tokens with spaces for what stands for them, by rising id; None for another JSON file."""
    try:
        vocabulary = orjson.loads(content)["model"]["vocab"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    names = _names(vocabulary)
    if names is None:
        return None
    spelled = []
    for name in names:
        if name[:1] == _SPACES[1]:
            spelled.append(name)
        spelled.append(f" {name[1:]}" if name[:1] in _SPACES else name)
    return spelled


def _names(vocabulary: Any) -> Iterable[str] | None:
    if isinstance(vocabulary, Mapping) and all(type(number) is int for number in vocabulary.values()):
        return sorted(vocabulary, key=lambda name: vocabulary[name])
    if isinstance(vocabulary, list) and all(isinstance(entry, list) and entry for entry in vocabulary):
        return [str(entry[0]) for entry in vocabulary]
    return None


def _tokens_of_tiktoken(content: bytes) -> list[str] | None:
    """Return the tokens that are text, in the order of the file, which is by rank."""
    tokens = []
    try:
        for line in content.split(b"\n"):
            if line:
                token, _ = line.split()
                tokens.append(base64.b64decode(token, validate=True).decode("utf-8", "replace"))
    except (ValueError, binascii.Error):
        return None
    return tokens or None
