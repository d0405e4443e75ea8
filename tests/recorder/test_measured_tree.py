from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from token_worlds import common

from rotoscope.recorder.measured_tree import MeasuredTree
from rotoscope.recorder.token_ids import MeasuredPrompts
from rotoscope.traces.journal import CallMeasured

PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8), min_size=1, max_size=9)


def measured(prompts: list[list[int]], order: list[int]) -> MeasuredTree:
    """Measure prompts in some order and make a tree of the lengths that come out."""
    seen = MeasuredPrompts()
    records = []
    for call in order:
        of, tokens = seen.add(call, prompts[call])
        records.append(CallMeasured(call=call, of=of, tokens=tokens, prompt_tokens=len(prompts[call])))
    return MeasuredTree(records)


@given(prompts=PROMPTS, data=st.data())
def test_lengths_alone_give_every_common_prefix_whatever_the_order_of_measuring(
    prompts: list[list[int]], data: st.DataObject
) -> None:
    tree = measured(prompts, data.draw(st.permutations(range(len(prompts)))))

    for a, one in enumerate(prompts):
        for b, other in enumerate(prompts):
            assert tree.common_prefix(a, b) == common(tuple(one), tuple(other))


@given(prompts=PROMPTS, data=st.data())
def test_streams_are_named_after_the_first_that_was_led_through(prompts: list[list[int]], data: st.DataObject) -> None:
    tree = measured(prompts, data.draw(st.permutations(range(len(prompts)))))

    for number, prompt in enumerate(prompts):
        shared = [common(tuple(prompt), tuple(before)) for before in prompts[:number]]
        most = max(shared, default=0)
        assert tree.enter(number, number, len(prompt)) == (shared.index(most) if most else None, most)


@given(prompts=PROMPTS, data=st.data())
def test_a_beginning_of_a_prompt_is_a_stream_of_its_own(prompts: list[list[int]], data: st.DataObject) -> None:
    tree = measured(prompts, data.draw(st.permutations(range(len(prompts)))))
    tokens = data.draw(st.integers(1, len(prompts[0])))
    tree.enter("s0", 0, tokens)

    for number, prompt in enumerate(prompts):
        of, shared = tree.enter(number, number, len(prompt))
        with_shared = common(tuple(prompt), tuple(prompts[0][:tokens]))
        most = max([with_shared, *(common(tuple(prompt), tuple(before)) for before in prompts[:number])])
        assert shared == most
        assert (of == "s0") == (0 < most == with_shared)


def test_what_was_not_measured_is_not_in_the_tree() -> None:
    tree = measured([[1], [1]], [1])

    assert 1 in tree
    assert 0 not in tree
