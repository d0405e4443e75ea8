from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.text import PackedIds, TokenText, unpacked
from rotoscope.replayer.tokens import TokenIds

token_lists = st.lists(st.sampled_from([0, 7, 10, 99, 100, 123_456, 2**32 - 1]), max_size=6)


def tokens(*ids: int) -> TokenIds:
    return np.array(ids, np.uint32)


def text_of(*ids: int) -> TokenText:
    text = TokenText()
    text.append(tokens(*ids))
    return text


def test_text_is_a_json_array_without_spaces() -> None:
    assert text_of(17, 4, 4_294_967_295).array(3) == b"[17,4,4294967295]"


def test_the_text_of_no_tokens_is_an_empty_array() -> None:
    assert TokenText().array(0) == b"[]"
    assert text_of(5).array(0) == b"[]"


def test_text_continues_in_place_at_its_end_and_in_a_new_one_before_it() -> None:
    text = text_of(1, 22, 333)

    assert text.continued(3) is text
    assert text.continued(2) is not text


def test_sealed_text_is_never_extended() -> None:
    text = text_of(1, 22)
    text.sealed = True
    text.continued(2).append(tokens(9))

    assert text.end == 2
    assert text.array(2) == b"[1,22]"


@given(st.data())
def test_any_tree_of_texts_holds_the_tokens_of_its_streams(data: st.DataObject) -> None:
    streams: list[tuple[TokenText, list[int]]] = [(TokenText(), [])]
    for _ in range(data.draw(st.integers(1, 12))):
        text, ids = data.draw(st.sampled_from(streams))
        cut = data.draw(st.just(len(ids)) | st.integers(0, len(ids)))
        more = data.draw(token_lists)
        longer = text.continued(cut)
        longer.append(tokens(*more))
        streams.append((longer, ids[:cut] + more))

    for text, ids in streams:
        for stop in range(len(ids) + 1):
            assert json.loads(text.array(stop)) == ids[:stop]


def test_texts_that_fork_again_and_again_are_copied_together() -> None:
    text, ids = text_of(1, 2), [1, 2]
    for token in range(100, 700):
        text = text.continued(text.end - 1)
        text.append(tokens(token, token))
        ids = [*ids[:-1], token, token]

    depth, ancestor = 0, text._parent
    while ancestor is not None:
        depth, ancestor = depth + 1, ancestor._parent
    assert json.loads(text.array(len(ids))) == ids
    assert json.loads(text.array(300)) == ids[:300]
    assert depth <= 128


def test_a_part_of_an_array_in_memory_is_encoded_like_any_other() -> None:
    text = TokenText()
    text.append(tokens(1, 2, 3, 4, 5)[::2])

    assert text.array(3) == b"[1,3,5]"


@pytest.mark.parametrize("stop", [1, 50_000, 99_999, 100_000])
def test_long_text_is_cut_where_a_token_ends(stop: int) -> None:
    ids = np.arange(100_000, dtype=np.uint32)
    text = TokenText()
    text.append(ids)

    assert json.loads(text.array(stop)) == ids[:stop].tolist()


def test_ids_are_packed_in_four_bytes_each() -> None:
    text = PackedIds()
    text.append(tokens(1, 256, 2**32 - 1))
    text.append(tokens())

    assert text.array(2) == b"\x01\0\0\0\0\x01\0\0"
    assert unpacked(text.array(3)).tolist() == [1, 256, 2**32 - 1]
    assert unpacked(PackedIds().array(0)).tolist() == []


@given(st.data())
def test_any_tree_of_packed_ids_holds_the_tokens_of_its_streams(data: st.DataObject) -> None:
    streams: list[tuple[PackedIds, list[int]]] = [(PackedIds(), [])]
    for _ in range(data.draw(st.integers(1, 12))):
        text, ids = data.draw(st.sampled_from(streams))
        cut = data.draw(st.just(len(ids)) | st.integers(0, len(ids)))
        more = data.draw(token_lists)
        longer = text.continued(cut)
        longer.append(tokens(*more))
        streams.append((longer, ids[:cut] + more))

    for text, ids in streams:
        assert unpacked(text.array(len(ids))).tolist() == ids
