from __future__ import annotations

from array import array
from typing import Any

import pytest

from rotoscope.traces import TraceError
from rotoscope.traces.formats.block_hashes import block_hashes
from rotoscope.traces.formats.fields import Fields


def test_hashes_of_up_to_64_bits_are_kept() -> None:
    fields = Fields({"h": [0, 2**64 - 1]})

    assert block_hashes(fields, "h", prompt_tokens=8, blocks=2) == array("Q", [0, 2**64 - 1])


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        ([1], "h: expected 2 hashes for 8 tokens, found 1"),
        ([1, -1], "h: expected integers of 64 bits"),
        ([1, 2**64], "h: expected integers of 64 bits"),
        ([1, True], "expected an integer, found a boolean"),
        ([1, "2"], "expected an integer, found a string"),
        (7, "h: expected a list, found a number"),
    ],
)
def test_anything_else_is_told(hashes: Any, expected: str) -> None:
    with pytest.raises(TraceError) as caught:
        block_hashes(Fields({"h": hashes}), "h", prompt_tokens=8, blocks=2)

    assert expected in str(caught.value)
