from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.rendering import BYTES_DEVIATION, COUNTED_DEVIATION, Observation, Rendering, learn


def prompts(rendering: Rendering, *shapes: tuple[int, float]) -> list[Observation]:
    """Return what a server of that rendering counts of prompts of so many parts and sizes; half call tools."""
    return [
        Observation(
            rendering.once + rendering.message * parts + rendering.call * (parts // 2) + rendering.ratio * size,
            size,
            parts,
            parts // 2,
        )
        for parts, size in shapes
    ]


SHAPES = ((2, 300.0), (4, 900.0), (7, 1800.0), (9, 2000.0), (3, 2500.0))


def test_without_usage_it_is_as_usual() -> None:
    assert learn([], ratio_deviation=COUNTED_DEVIATION) == Rendering()


@pytest.mark.parametrize("true", [Rendering(0, 5, 9), Rendering(30, 4, 4), Rendering(120, 6, 0), Rendering(6, 3, 4)])
def test_a_template_is_learnt_where_the_tokenizer_is_the_servers(true: Rendering) -> None:
    learnt = learn(prompts(true, *SHAPES), ratio_deviation=COUNTED_DEVIATION)

    assert learnt.ratio == 1.0
    assert learnt.once == pytest.approx(true.once, abs=2)
    assert learnt.message == pytest.approx(true.message, abs=1)
    assert learnt.call == pytest.approx(true.call, abs=1.5)


@pytest.mark.parametrize("true", [Rendering(20, 5, 6, 1.2), Rendering(0, 4, 4, 0.85), Rendering(0, 4, 2, 1.05)])
def test_the_ratio_of_another_tokenizer_is_learnt(true: Rendering) -> None:
    learnt = learn(prompts(true, *SHAPES), ratio_deviation=COUNTED_DEVIATION)

    assert learnt.ratio == pytest.approx(true.ratio, abs=0.005)


def test_a_ratio_that_is_not_the_same_for_all_texts_is_not_taken_for_something_added_once() -> None:
    """A task of 3,000 tokens that the server counts as 3,600, and results of tools that it counts as we do."""
    grown = [Observation(3600 + 8 + 208 * turn, 3000 + 200 * turn, 2 + 2 * turn) for turn in range(30)]

    learnt = learn(grown, ratio_deviation=COUNTED_DEVIATION)

    assert learnt.once < 150
    assert learnt.ratio == pytest.approx(1.1, abs=0.05)


def test_one_call_is_shared_between_what_may_explain_it() -> None:
    learnt = learn(prompts(Rendering(60, 4, 4, 1), (3, 1000.0)), ratio_deviation=COUNTED_DEVIATION)

    assert 0 < learnt.once < 60
    assert 1 < learnt.ratio < 1.06


def test_sizes_by_bytes_may_be_far_off() -> None:
    learnt = learn(prompts(Rendering(0, 4, 4, 2.5), *SHAPES), ratio_deviation=BYTES_DEVIATION)

    assert learnt.ratio == pytest.approx(2.5, abs=0.02)


def test_outputs_have_nothing_added() -> None:
    outputs = [Observation(500, 400, 0), Observation(250, 200, 0)]

    learnt = learn(outputs, ratio_deviation=COUNTED_DEVIATION)

    assert (learnt.once, learnt.message) == (0.0, 4.0)
    assert learnt.ratio == pytest.approx(1.25, abs=0.001)


def test_a_doubtful_observation_weighs_little() -> None:
    true = Rendering(10)
    doubtful = Observation(100, 5000, 5, noise=4000.0)

    learnt = learn([*prompts(true, *SHAPES), doubtful], ratio_deviation=COUNTED_DEVIATION)

    assert learnt.ratio == 1.0


@given(
    st.lists(
        st.builds(
            Observation,
            st.floats(0, 1e6),
            st.floats(0, 1e6),
            st.integers(0, 500),
            st.integers(0, 500),
            st.floats(1, 1e4),
        ),
        max_size=12,
    ),
    st.sampled_from([COUNTED_DEVIATION, BYTES_DEVIATION]),
)
def test_whatever_the_server_says_no_size_is_less_than_nothing(seen: list[Observation], deviation: float) -> None:
    learnt = learn(seen, ratio_deviation=deviation)

    assert learnt.once >= 0
    assert learnt.message >= 0
    assert 0.05 <= learnt.ratio <= 20
