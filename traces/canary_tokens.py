"""Tokenizers for the search for token ids: tiktoken's encodings whose files are on this machine."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from rotoscope.traces.canary_forms import Encode

_FILES = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
"""tiktoken keeps a file under the SHA-1 of the address it has it from."""
ENCODINGS = ("o200k_base", "cl100k_base")


def offline_encodings() -> dict[str, Encode]:
    """Return the encodings that need no download, by name; nothing is ever fetched."""
    found = [name for name in ENCODINGS if _cached_file(name).is_file()]
    if not found:
        return {}
    import tiktoken

    return {name: tiktoken.get_encoding(name).encode_ordinary for name in found}


def _cached_file(name: str) -> Path:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    address = _FILES.format(name)
    key = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    return Path(folder or os.path.join(tempfile.gettempdir(), "data-gym-cache"), key)
