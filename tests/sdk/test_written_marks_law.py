"""What an agent sends is what the gateway reads, whatever its names and times are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rotoscope.proxy.marks_desk import MOST_BYTES, MOST_MARKS, read_batch
from rotoscope.proxy.marks_desk import MOST_CHARS as MOST_CHARS_READ
from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark, WaitMark
from rotoscope.sdk.sending import MOST_AT_ONCE
from rotoscope.sdk.written_marks import MOST_CHARS, batch_of
from rotoscope.traces.model import WaitKind

names = st.text(max_size=50)
times = st.floats(-1e9, 1e9)
marks: st.SearchStrategy[Mark] = st.one_of(
    st.builds(ToolMark, st.text(), names, times, times),
    st.builds(WaitMark, st.sampled_from(get_args(WaitKind)), names, times, times),
    st.builds(BranchMark, names, names, names, times),
    st.builds(JoinMark, names, times),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["marks", "mark", "name", "now_s"]), inner),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.lists(marks, max_size=5), st.integers(0, 1 << 40), times)
def test_what_is_written_is_read(told: list[Mark], number: int, now_s: float) -> None:
    batch = read_batch(batch_of(told, teller="t", number=number, now_s=now_s))

    assert [mark.told(0.0) for mark in batch.marks] == told
    assert (batch.teller, batch.batch, batch.now_s) == ("t", number, now_s)


@settings(max_examples=50)
@given(marks, times)
def test_times_are_moved_and_nothing_else(mark: Mark, later_s: float) -> None:
    [read] = read_batch(batch_of([mark], teller="t", number=0, now_s=0.0)).marks
    moved = read.told(later_s)

    times_of = {name: getattr(mark, name) for name in ("start_s", "end_s") if hasattr(mark, name)}
    assert moved == replace(mark, **{name: at_s + later_s for name, at_s in times_of.items()})


@settings(max_examples=50)
@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_refused_and_nothing_worse(body: bytes) -> None:
    with pytest.raises(ValidationError):
        read_batch(body)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"marks":' * 100_000, b'{"teller":"t","batch":' + b"9" * 50_000])
def test_depth_and_long_numbers_are_refused_too(body: bytes) -> None:
    with pytest.raises(ValidationError):
        read_batch(body)


@pytest.mark.parametrize("letter", ["a", "\x00", "\U0001f600", "\ud800"])
def test_largest_batch_is_not_too_large(letter: str) -> None:
    told: list[Any] = [ToolMark(letter * (MOST_CHARS + 5), "t" * 16, 1.0, 2.0)] * MOST_AT_ONCE

    body = batch_of(told, teller="t" * 16, number=1 << 40, now_s=1e9 / 3)
    assert len(body) <= MOST_BYTES
    assert len(read_batch(body).marks) == MOST_AT_ONCE <= MOST_MARKS
    assert MOST_CHARS == MOST_CHARS_READ
