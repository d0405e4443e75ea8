from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.testing import make_trace
from rotoscope.traces import Prefix, SharedPrefix, SharedPrefixLink, Trace
from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.formats.block_ids import BlockIds, block_ids

Tokens = list[int]


def members_of(traces: Sequence[Trace]) -> list[Member]:
    return [Member(name=str(index), trace=trace) for index, trace in enumerate(traces)]


def prompts_of(traces: Sequence[Trace]) -> dict[tuple[int, int], Tokens]:
    """Write every prompt out, token by token, with a number of its own for each token that is nobody else's."""
    fresh = count()
    longest = {
        (trace.campaign, shared.id): max(
            other.tokens
            for one in traces
            if one.campaign == trace.campaign
            for other in one.shared_prefixes
            if other.id == shared.id
        )
        for trace in traces
        for shared in trace.shared_prefixes
    }
    shared_tokens: dict[tuple[str, int, str], Tokens] = {}
    prompts = {}
    for index, trace in enumerate(traces):
        streams: dict[int, Tokens] = {}
        for call in trace.calls():
            for shared in trace.shared_prefixes:
                key = (trace.campaign, call.domain, shared.id)
                parent = shared_tokens[(*key[:2], shared.prefix.of)][: shared.prefix.tokens] if shared.prefix else []
                length = longest[trace.campaign, shared.id] - len(parent)
                shared_tokens.setdefault(key, parent + [next(fresh) for _ in range(length)])
            of, tokens = call.prefix.of, call.prefix.tokens
            stream = shared_tokens[trace.campaign, call.domain, of] if isinstance(of, str) else streams.get(of or 0, [])
            begin = stream[:tokens] if of is not None else []
            streams[call.call] = begin + [next(fresh) for _ in range(call.stream_tokens - tokens)]
            prompts[index, call.call] = streams[call.call][: call.prompt_tokens]
    return prompts


def common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(corpora(), st.integers(1, 5), st.booleans())
def test_two_blocks_have_one_id_exactly_when_all_up_to_them_is_the_same(
    traces: list[Trace], block_size: int, with_partial: bool
) -> None:
    prompts = prompts_of(traces)

    found = block_ids(members_of(traces), block_size, with_partial=with_partial)

    ids = {
        (index, call.call): found[index][place]
        for index, trace in enumerate(traces)
        for place, call in enumerate(trace.calls())
    }
    for a, own in prompts.items():
        assert len(ids[a]) == (-(-len(own) // block_size) if with_partial else len(own) // block_size)
        for b, other in prompts.items():
            shared = common(own, other)
            expected = len(ids[a]) if own == other else shared // block_size
            assert common(ids[a], ids[b]) == expected
            assert not set(ids[a][expected:]) & set(ids[b][expected:])


@given(corpora(), st.integers(1, 5))
def test_ids_count_up_by_first_appearance(traces: list[Trace], block_size: int) -> None:
    members = members_of(traces)
    found = block_ids(members, block_size, with_partial=True)

    seen: dict[int, None] = {}
    numbers = [{call.call: place for place, call in enumerate(trace.calls())} for trace in traces]
    for index, call in calls_in_order(members):
        row: BlockIds = found[index][numbers[index][call.call]]
        assert len(set(row)) == len(row)
        seen.update(dict.fromkeys(row))
    assert list(seen) == sorted(seen)


def test_an_output_that_comes_back_has_blocks_of_its_own() -> None:
    trace = make_trace(turns=2, isl=4, osl=4, system=0)

    first, second = block_ids(members_of([trace]), 2, with_partial=False)[0]

    assert second[: len(first)] == first
    assert len(second) > len(first)


def test_order_of_ids_follows_the_ranks() -> None:
    one, other = make_trace(isl=4, system=0), make_trace(isl=4, system=0)
    members = [Member(name="a", trace=one, ranks=(1,)), Member(name="b", trace=other, ranks=(0,))]

    assert block_ids(members, 2, with_partial=False) == [[(2, 3)], [(0, 1)]]


@pytest.mark.parametrize("with_partial", [True, False])
def test_nothing_gives_nothing(with_partial: bool) -> None:
    assert block_ids([], 16, with_partial=with_partial) == []


def deep_trace(depth: int) -> Trace:
    """Return a trace whose only call begins like the last of many shared prefixes that begin like one another."""
    shared = [SharedPrefix("s0", "group", 3)]
    for number in range(1, depth):
        shared.append(
            SharedPrefix(f"s{number}", "group", 2 * number + 3, SharedPrefixLink(f"s{number - 1}", 2 * number))
        )
    trace = make_trace(isl=2 * depth + 1, system=0)
    (call,) = trace.calls()
    call = replace(call, prefix=Prefix(f"s{depth - 1}", 2 * depth, "blocks"))
    return replace(trace, shared_prefixes=tuple(shared), events=(call,))


def test_shared_prefixes_may_begin_like_one_another_to_any_depth() -> None:
    depth = sys.getrecursionlimit() + 10

    assert block_ids(members_of([deep_trace(depth)]), 2, with_partial=False) == [[tuple(range(depth))]]
