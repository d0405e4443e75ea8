"""A tokenizer file for tests: each word is a token, and so is each mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def word_tokenizer(path: Path, *, most_tokens: int | None = None) -> Path:
    """Write a `tokenizer.json`; one that cuts texts at `most_tokens` is as some models publish it."""
    truncation = {"direction": "Right", "max_length": most_tokens, "strategy": "LongestFirst", "stride": 0}
    content: dict[str, Any] = {
        "version": "1.0",
        "truncation": None if most_tokens is None else truncation,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
    }
    path.write_text(json.dumps(content))
    return path
