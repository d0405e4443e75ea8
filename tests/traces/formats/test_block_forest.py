from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import Call, Forest, Prefix
from rotoscope.traces.formats.block_forest import BlockForest


def prefix(forest: BlockForest, call: int, ids: list[int], prompt: int, domain: int = 0) -> Prefix:
    return forest.prefix(call, domain=domain, block_ids=tuple(ids), prompt_tokens=prompt)


def test_a_prompt_shares_its_leading_blocks_with_the_first_call_that_has_them() -> None:
    forest = BlockForest(64)

    found = [prefix(forest, i, ids, 200) for i, ids in enumerate([[1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 9, 4]])]

    assert [(p.of, p.tokens) for p in found] == [(None, 0), (0, 128), (1, 192), (0, 64)]
    assert {p.source for p in found} == {"blocks"}


def test_an_id_in_another_place_is_another_block() -> None:
    forest = BlockForest(64)
    prefix(forest, 0, [1, 2], 128)

    assert prefix(forest, 1, [2, 1], 128).tokens == 0


def test_domains_share_nothing() -> None:
    forest = BlockForest(64)
    prefix(forest, 0, [1], 64)

    assert prefix(forest, 1, [1], 64, domain=1).tokens == 0
    assert prefix(forest, 2, [1], 64, domain=1).of == 1


def test_a_partial_last_block_is_the_same_only_in_a_prompt_of_the_same_length() -> None:
    forest = BlockForest(64)
    prefix(forest, 0, [1, 2], 100)

    assert [prefix(forest, i, [1, 2], tokens).tokens for i, tokens in enumerate([100, 101, 128], 1)] == [100, 64, 64]


def test_a_tail_without_an_id_is_never_shared() -> None:
    forest = BlockForest(64)
    prefix(forest, 0, [1], 100)

    assert prefix(forest, 1, [1], 100).tokens == 64


prompts = st.lists(
    st.tuples(st.lists(st.integers(0, 1), max_size=6), st.integers(1, 64), st.integers(0, 1)), min_size=1, max_size=12
)


@given(prompts)
def test_the_forest_has_the_common_prefixes_of_the_lists(drawn: list[tuple[list[int], int, int]]) -> None:
    forest, calls = BlockForest(64), []
    for number, (ids, tail, domain) in enumerate(drawn):
        tokens = 64 * len(ids) + tail
        of = prefix(forest, number, ids, tokens, domain)
        calls.append(
            Call(
                call=number,
                domain=domain,
                conversation_id=0,
                message_index=0,
                prompt_tokens=tokens,
                completion_tokens=0,
                prefix=of,
            )
        )

    found = Forest((), calls)
    for a, (ids, _, domain) in enumerate(drawn):
        for b, (others, _, other_domain) in enumerate(drawn[:a]):
            same = next((i for i, (x, y) in enumerate(zip(ids, others, strict=False)) if x != y), None)
            blocks = min(len(ids), len(others)) if same is None else same
            assert found.common_prefix(a, b) == (64 * blocks if domain == other_domain else 0)
