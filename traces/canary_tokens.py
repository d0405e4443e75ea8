"""Tokenizers for the search for token ids: tiktoken's encodings whose files are on this machine."""

from __future__ import annotations

from functools import cache

from rotoscope.traces.canary_forms import Encode
from rotoscope.traces.offline_encodings import ENCODINGS, is_at_hand, load_encoding


@cache
def offline_encodings() -> dict[str, Encode]:
    """Return the encodings that need no download, by name, loaded once in a process.

    Raises UnusableInput where the file of one is damaged, because its ids would not be looked for.
    """
    return {name: load_encoding(name).encode_ordinary for name in ENCODINGS if is_at_hand(name)}
