from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces.journal import BORDER_STEP, FIRST_BORDER_BYTES, PartRole, PartSeen, border_ends


def part(role: PartRole, *, size: int, most_tokens: int) -> PartSeen:
    return PartSeen(
        part=0, role=role, digest="0" * 32, borders="", text_bytes=size, loose_bytes=size, most_tokens=most_tokens
    )


@given(size=st.integers(0, 100_000))
def test_borders_rise_to_the_end_by_an_eighth_at_most(size: int) -> None:
    ends = border_ends(size)

    assert list(ends) == sorted(set(ends))
    assert ends[-1:] == ((size,) if size else ())
    for before, end in zip([0, *ends], ends, strict=False):
        assert end - before <= max(FIRST_BORDER_BYTES, before // BORDER_STEP)


def test_longer_texts_have_the_borders_of_shorter_ones() -> None:
    assert border_ends(5000)[:20] == border_ends(9000)[:20]


def test_text_without_a_template_has_finer_borders_than_a_message() -> None:
    message, text = part("user", size=300, most_tokens=301), part("text", size=300, most_tokens=301)

    assert message.border_ends() == (128, 256, 300)
    assert text.border_ends() == (*range(32, 300, 32), 300)


def test_a_stretch_of_ids_is_text_of_more_bytes_than_tokens() -> None:
    assert part("text", size=40, most_tokens=10).is_ids
    assert not part("text", size=40, most_tokens=41).is_ids
    assert not part("user", size=40, most_tokens=10).is_ids
