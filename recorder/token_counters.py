"""Tokenizers at hand, to count with where the server does not tell; none of them ever asks the network.

A tokenizer file is the `tokenizer.json` of Hugging Face's `tokenizers`. In a trace it is named for its SHA-256: the
file's name is one from outside, but the same file has the same name in all traces.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import orjson

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.offline_encodings import CACHE_VARIABLES, CARRIER, ENCODINGS, is_at_hand, load_encoding

AUTO = "auto"
NONE = "none"
FILE_LIBRARY = "tokenizers"


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """Return its name in a trace, behind `tokenizer:`."""

    def count(self, text: str) -> int:
        """Return how many tokens a text is, without special tokens around it."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer that can be loaded."""

    name: str
    """As it stands in a trace."""
    file: Path | None = None
    """None for an encoding of tiktoken."""


def chosen_tokenizer(given: str, environment: Mapping[str, str] = os.environ) -> Tokenizer | None:
    """Return the tokenizer of an option: auto, none, an encoding's name or a file; None where there is none to take.

    Raises UnusableInput when what was named is not at hand.
    """
    if given == NONE:
        return None
    if given == AUTO:
        return Tokenizer(ENCODINGS[0]) if is_at_hand(ENCODINGS[0], environment) else None
    if given in ENCODINGS:
        if is_at_hand(given, environment):
            return Tokenizer(given)
        raise UnusableInput(
            f"the encoding {given!r} is not at hand and is not downloaded: install {CARRIER}, "
            f"or name the folder with its file in {CACHE_VARIABLES[0]}"
        )
    return _tokenizer_file(Path(given))


def load_counter(tokenizer: Tokenizer, environment: Mapping[str, str] = os.environ) -> TokenCounter:
    """Load a tokenizer, which takes half a second or more. Raises UnusableInput when it cannot be loaded."""
    if tokenizer.file is not None:
        return FileCounter(tokenizer.name, tokenizer.file)
    return EncodingCounter(tokenizer.name, environment)


class EncodingCounter:
    """Count with an encoding of tiktoken."""

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        """Raise UnusableInput when no file of it is at hand that is whole."""
        self.name = name
        self._encoding = load_encoding(name, environment)

    def __repr__(self) -> str:
        return f"EncodingCounter({self.name!r})"

    def count(self, text: str) -> int:
        """Return how many tokens a text is; what looks like a special token is text."""
        return len(self._encoding.encode_ordinary(text))


class FileCounter:
    """Count with a `tokenizer.json`."""

    def __init__(self, name: str, file: Path) -> None:
        """Raise UnusableInput when the file holds no tokenizer."""
        from tokenizers import Tokenizer as Loaded

        self.name = name
        try:
            self._tokenizer = Loaded.from_file(str(file))
        except Exception as error:  # the library raises nothing narrower
            raise UnusableInput(f"{file} cannot be read as a tokenizer: give a tokenizer.json") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __repr__(self) -> str:
        return f"FileCounter({self.name!r})"

    def count(self, text: str) -> int:
        """Return how many tokens a text is; of the ways to encode, this one lets other threads run meanwhile."""
        return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


def _tokenizer_file(given: Path) -> Tokenizer:
    file = given / "tokenizer.json" if given.is_dir() else given
    try:
        content = file.read_bytes()
    except OSError as error:
        names = ", ".join((AUTO, NONE, *ENCODINGS))
        raise UnusableInput(
            f"the tokenizer {str(given)!r} cannot be read ({error.strerror}): expected {names} or a tokenizer.json"
        ) from error
    if not _is_tokenizer(content):
        raise UnusableInput(f"{file} is no tokenizer: expected a tokenizer.json of Hugging Face")
    if find_spec(FILE_LIBRARY) is None:
        raise UnusableInput(f"{file} needs the package {FILE_LIBRARY}: pip install 'rotoscope[tokenizers]'")
    return Tokenizer(f"file-{hashlib.sha256(content).hexdigest()[:8]}", file)


def _is_tokenizer(content: bytes) -> bool:
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return isinstance(parsed, dict) and isinstance(parsed.get("model"), dict)
