from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces.byte_search import ByteSearch, Pattern


def found(patterns: list[Pattern], pieces: list[bytes]) -> list[tuple[int, int]]:
    return sorted(ByteSearch(patterns).find(pieces))


def by_hand(patterns: list[Pattern], data: bytes) -> list[tuple[int, int]]:
    return sorted(
        (place, index)
        for index, pattern in enumerate(patterns)
        for place in range(len(data))
        if data.startswith(pattern.data, place) and (not pattern.stands_alone or is_alone(pattern.data, data, place))
    )


def is_alone(pattern: bytes, data: bytes, place: int) -> bool:
    before, after = data[:place][-1:], data[place + len(pattern) :][:1]
    return not before.isalnum() and not after.isalnum()


@given(
    st.lists(st.builds(Pattern, st.text("ab", min_size=1, max_size=12).map(str.encode), st.booleans()), max_size=6),
    st.lists(st.text("ab ", max_size=40).map(str.encode), max_size=6),
)
def test_every_match_is_found_once_wherever_the_pieces_are_cut(patterns: list[Pattern], pieces: list[bytes]) -> None:
    assert found(patterns, pieces) == by_hand(patterns, b"".join(pieces))


def test_thousands_of_patterns_are_told_apart() -> None:
    patterns = [Pattern(b"%016d" % number) for number in range(5000)]

    assert found(patterns, [b"x%016dy%016d" % (17, 4999)]) == [(1, 17), (18, 4999)]


def test_a_short_number_counts_only_alone_even_at_the_border_of_pieces() -> None:
    pattern = [Pattern(b"1234567890", stands_alone=True)]

    assert found(pattern, [b"5", b"1234567890 "]) == []
    assert found(pattern, [b"12345", b"67890", b"1"]) == []
    assert found(pattern, [b" 12345", b"67890", b","]) == [(1, 0)]
