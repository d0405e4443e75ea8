"""What stands in a frame comes out of it, wherever it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark, WaitMark
from rotoscope.sdk.frames import Unpacking, packed, read_mark, written_mark

TEXTS = st.text(st.characters(codec=None), max_size=9)
HEADS = st.lists(
    TEXTS | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.dictionaries(TEXTS, TEXTS),
    min_size=1,
    max_size=4,
)


@given(frames=st.lists(st.tuples(HEADS, st.binary(max_size=99)), max_size=4), step=st.integers(1, 40))
def test_frames_come_out_as_they_went_in(frames: list[tuple[list[Any], bytes]], step: int) -> None:
    sent, unpacking = b"".join(packed(*frame) for frame in frames), Unpacking()
    came = [frame for start in range(0, len(sent), step) for frame in unpacking.feed(sent[start : start + step])]

    assert came == frames


@pytest.mark.parametrize(
    "mark",
    [
        ToolMark("look", "a", 1.0, 2.0),
        WaitMark("human", "a", 1.0, 2.0),
        BranchMark("b", "a", "r", 1.0),
        JoinMark("r", 2.0),
    ],
)
def test_marks_come_out_as_they_went_in(mark: Mark) -> None:
    assert read_mark(written_mark(mark)) == mark


@pytest.mark.parametrize(
    ("data", "why"), [(b"\xff" * 8, "too long"), (packed([1])[:8] + b"no json", "Expecting value")]
)
def test_what_is_no_frame_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(Unpacking().feed(data))
