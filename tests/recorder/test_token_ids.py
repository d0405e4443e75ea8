from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from token_worlds import common

from rotoscope.recorder.token_ids import MeasuredPrompts

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=10)


@given(prompts=PROMPTS)
def test_a_prompt_is_named_after_the_first_that_it_shares_most_with(prompts: list[list[int]]) -> None:
    measured = MeasuredPrompts()
    for number, prompt in enumerate(prompts):
        shared = [common(tuple(prompt), tuple(before)) for before in prompts[:number]]
        most = max(shared, default=0)

        assert measured.add(number, prompt) == (shared.index(most) if most else None, most)


def test_ids_may_be_as_large_as_they_like() -> None:
    measured = MeasuredPrompts()
    measured.add(0, [2**31, 0, 5])

    assert measured.add(1, [2**31, 0, 6]) == (0, 2)


def test_no_id_is_kept() -> None:
    measured = MeasuredPrompts()
    measured.add(0, [123456789] * 3)

    (root,) = measured._roots.values()
    assert 123456789 not in [*map(int, root.tokens), *measured._roots]
    assert "123456789" not in repr(measured) + repr(root)


def test_two_recordings_turn_ids_differently() -> None:
    roots = []
    for _ in range(2):
        measured = MeasuredPrompts()
        measured.add(0, [1])
        roots.append([*measured._roots])

    assert roots[0] != roots[1]
