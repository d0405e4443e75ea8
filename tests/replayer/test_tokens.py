from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.tokens import Codes, Vocabulary, draw, key_of
from rotoscope.traces import UnusableInput

VOCABULARY = Vocabulary(1000, 33_000)
KEY = key_of(1, "salt", "campaign", 0)


def test_drawn_ids_never_change() -> None:
    golden = [13209, 1120, 22168, 23482, 20738, 21676, 3744, 18427, 2635, 28554]

    assert KEY.hex() == "a9c22e4c9b39f19b31d11c05679a91979e4e3e56e22d6504738d88bdc53906e6"
    assert draw(KEY, 0, 10, VOCABULARY).tolist() == golden
    assert draw(KEY, 10**12, 10**12 + 3, Vocabulary(0, 2**32)).tolist() == [1624660630, 3054262549, 556900157]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 10**15))
def test_a_slice_is_what_the_whole_stream_has_there(start: int, length: int, offset: int) -> None:
    whole = draw(KEY, offset, offset + 100, VOCABULARY)

    assert draw(KEY, offset + start, offset + start + length, VOCABULARY).tolist() == whole[start:][:length].tolist()


def test_drawn_ids_fill_the_vocabulary_evenly() -> None:
    counts = np.bincount(draw(KEY, 0, 30_000, Vocabulary(5, 8)), minlength=8)

    assert counts[:5].tolist() == [0] * 5
    assert all(9_500 < count < 10_500 for count in counts[5:])


def test_nothing_is_drawn_of_an_empty_slice() -> None:
    assert draw(KEY, 7, 7, VOCABULARY).tolist() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, "2"), ("1", 2)),
        (("a", "b,c"), ("a,b", "c")),
        ((1, 23), (12, 3)),
        (((1, 2), 3), (1, (2, 3))),
        ((None,), ("None",)),
    ],
)
def test_identities_that_a_join_would_confuse_have_different_keys(one: tuple[int], other: tuple[int]) -> None:
    assert key_of(*one) != key_of(*other)


def test_a_vocabulary_is_read_from_its_borders() -> None:
    vocabulary = Vocabulary.parse("1000:32000")

    assert (vocabulary.low, vocabulary.high, vocabulary.size) == (1000, 32_000, 31_000)
    assert str(vocabulary) == "1000:32000"


@pytest.mark.parametrize("text", ["", "32000", "a:b", "-1:5", "1:2:3", "1.5:9", "٣:٩", "1:99999999999"])
def test_a_vocabulary_without_two_borders_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match=r"expected a vocabulary as LOW:HIGH, such as 1000:32000"):
        Vocabulary.parse(text)


@pytest.mark.parametrize("text", ["5:5", "9:5", "5:6", "0:9999999999"])
def test_a_vocabulary_of_less_than_two_ids_or_too_large_ones_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match=f"at least two ids below 2\\*\\*32, found {text}"):
        Vocabulary.parse(text)


small = st.builds(lambda low, size: Vocabulary(low, low + size), st.integers(0, 3), st.integers(2, 7))


@st.composite
def codes(draw: st.DrawFn) -> Codes:
    vocabulary = draw(small)
    excluded = draw(st.none() | st.integers(vocabulary.low, vocabulary.high - 1))
    return Codes(
        draw(st.binary(min_size=32, max_size=32)),
        draw(st.integers(1, 30)),
        draw(st.integers(1, 2)),
        vocabulary,
        excluded,
    )


def all_codes(codes: Codes) -> list[tuple[int, ...]]:
    every = [codes.code(rank, way) for rank in range(codes.children) for way in range(codes.ways)]
    return [tuple(int(token) for token in code) for code in every]


@given(codes())
def test_no_two_codes_are_alike(codes: Codes) -> None:
    every = all_codes(codes)

    assert len(set(every)) == codes.children * codes.ways
    assert {len(code) for code in every} == {codes.tokens}


@given(codes())
def test_codes_are_of_the_vocabulary_and_do_not_begin_with_the_excluded_token(codes: Codes) -> None:
    for code in all_codes(codes):
        assert code[0] != codes.excluded
        assert all(codes.vocabulary.low <= token < codes.vocabulary.high for token in code)


@given(codes())
def test_codes_have_one_token_as_long_as_there_are_enough_and_no_more_than_it_takes(codes: Codes) -> None:
    needed = codes.children * codes.ways
    firsts = codes.vocabulary.size - (codes.excluded is not None)

    assert firsts * codes.vocabulary.size ** (codes.tokens - 1) >= needed
    assert codes.tokens == 1 or firsts * codes.vocabulary.size ** (codes.tokens - 2) < needed


@given(codes())
def test_both_codes_of_a_child_differ_in_their_first_token(codes: Codes) -> None:
    firsts = codes.vocabulary.size - (codes.excluded is not None)

    if codes.ways == 2 and firsts > 1:
        assert all(codes.code(rank, 0)[0] != codes.code(rank, 1)[0] for rank in range(codes.children))


def test_another_place_permutes_the_codes_otherwise() -> None:
    places = [Codes(key_of(place), 50, 1, VOCABULARY) for place in range(2)]

    assert all_codes(places[0]) != all_codes(places[1])
