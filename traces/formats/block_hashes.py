"""Hashes of blocks as files have them: 64 bits each, kept as such, since a file may hold many millions."""

from __future__ import annotations

from array import array

from rotoscope.traces.formats.fields import Fields


def block_hashes(fields: Fields, name: str, *, prompt_tokens: int, blocks: int) -> array[int]:
    """Return a list of hashes; raise TraceError where they are not as many as the prompt has blocks."""
    hashes = fields.integers(name)
    if len(hashes) != blocks:
        raise fields.error(name, f"expected {blocks} hashes for {prompt_tokens} tokens, found {len(hashes)}")
    try:
        return array("Q", hashes)
    except OverflowError as error:
        raise fields.error(name, "expected integers of 64 bits") from error
