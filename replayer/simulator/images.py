"""Images in a prompt: each takes as many tokens, whatever its size, and is told from others by a digest.

In the text of a message an image is `<|image|>` and 16 digits of its digest; the template makes a control token of it and
words that are drawn from the digest, so that the block cache finds an image again and takes no other for it. An image is
neither fetched nor decoded.
"""

from __future__ import annotations

import hashlib
import re

from rotoscope.replayer.simulator.tokenizer import IMAGE, decode, word_ids

IMAGE_TOKENS = 256
"""So many soft tokens has Gemma 3 for an image of any size (`mm_tokens_per_image` of its published configuration)."""

_DIGITS = 16
_MARK = re.compile(re.escape(IMAGE) + f"([0-9a-f]{{{_DIGITS}}})")


def image_mark(image: bytes) -> str:
    """Return what stands for an image in the text of a message."""
    return IMAGE + hashlib.sha256(image).hexdigest()[:_DIGITS]


def with_images(text: str) -> str:
    """Return a text with the tokens of its images spelled out."""
    return _MARK.sub(lambda mark: _spelled_out(mark[1]), text)


def _spelled_out(digest: str) -> str:
    words, count = word_ids(), IMAGE_TOKENS - 1
    drawn = hashlib.shake_256(digest.encode()).digest(2 * count)
    ids = [words[int.from_bytes(drawn[2 * at : 2 * at + 2], "big") % len(words)] for at in range(count)]
    return IMAGE + decode(ids)
