from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from token_worlds import World, common, trace_of, worlds

from rotoscope import testing
from rotoscope.traces import Call, Prefix, SharedPrefix, SharedPrefixLink, Trace
from rotoscope.traces.bounds import PromptBounds


def call(number: int, prefix: Prefix, **fields: Any) -> Call:
    return testing.make_call(number, 100, osl=50, prefix=prefix, **fields)


def trace(*prefixes: Prefix, shared: tuple[SharedPrefix, ...] = ()) -> Trace:
    """Return a trace of prompts of 100 and outputs of 50 tokens."""
    calls = (call(number, prefix) for number, prefix in enumerate(prefixes))
    return testing.trace_of(*calls, shared_prefixes=shared)


def text(of: int | str | None, tokens: int, low: int | None = None, high: int | None = None) -> Prefix:
    return Prefix(of, tokens, "text", low, high)


NONE = text(None, 0)


@given(world=worlds())
def test_where_all_is_exact_so_is_every_pair_but_behind_outputs_that_may_begin_like_another_stream(
    world: World,
) -> None:
    exact = trace_of(world)
    bounds = PromptBounds(exact)
    whole = [x for x, it in zip(world.calls, exact.calls(), strict=True) if it.prefix.tokens == it.prompt_tokens]

    for (a, one), (b, other) in combinations(enumerate(world.calls), 2):
        shared = common(one.prompt, other.prompt) if one.domain == other.domain else 0
        low, high = bounds.common_prefix(a, b)
        assert low <= shared <= high
        is_behind = any(common(x.prompt, it.stream) > len(it.prompt) for x in (one, other) for it in whole)
        assert low == high or is_behind or shared == min(len(one.prompt), len(other.prompt))


def test_a_prompt_is_all_of_itself() -> None:
    assert PromptBounds(trace(NONE)).common_prefix(0, 0) == (100, 100)


def test_no_pair_shares_more_than_the_shorter_prompt() -> None:
    assert PromptBounds(trace(NONE, text(0, 100, 90))).common_prefix(0, 1) == (90, 100)


def test_the_order_of_a_pair_does_not_matter() -> None:
    bounds = PromptBounds(trace(NONE, text(0, 50, 40, 60)))

    assert bounds.common_prefix(0, 1) == bounds.common_prefix(1, 0) == (40, 60)


def test_the_least_bound_on_the_way_holds_from_below() -> None:
    bounds = PromptBounds(trace(NONE, text(0, 50, 40, 60), text(1, 80, 30, 90)))

    assert bounds.common_prefix(0, 2)[0] == 30


def test_a_prompt_that_surely_goes_on_with_its_referent_parts_where_that_does() -> None:
    bounds = PromptBounds(trace(NONE, text(0, 50, 40, 60), text(1, 80, 70, 90)))

    assert bounds.common_prefix(0, 2) == (40, 60)


def test_a_prompt_that_may_part_before_its_referent_may_share_what_it_shares_with_any() -> None:
    bounds = PromptBounds(trace(NONE, text(0, 50, 40, 60), text(1, 80, 55, 90)))

    assert bounds.common_prefix(0, 2) == (40, 90)


def test_continuations_of_two_outputs_of_one_prompt_may_begin_alike() -> None:
    bounds = PromptBounds(trace(NONE, text(0, 100), text(0, 100, 90, 100), text(1, 100, 90, 100)))

    assert bounds.common_prefix(2, 3) == (90, 100)


def test_so_may_prompts_that_surely_go_on_behind_both() -> None:
    prompts = ((100, NONE), (100, text(0, 100)), (200, text(0, 150)), (180, text(1, 140)))
    calls = (testing.make_call(number, isl, osl=50, prefix=prefix) for number, (isl, prefix) in enumerate(prompts))
    bounds = PromptBounds(testing.trace_of(*calls))

    assert bounds.common_prefix(2, 3) == (100, 140)
    assert bounds.common_prefix(0, 3) == (100, 100)


def test_calls_of_two_domains_share_nothing() -> None:
    both = testing.trace_of(call(0, NONE), call(1, text(None, 0, None, 100), domain=1))

    assert PromptBounds(both).common_prefix(0, 1) == (0, 0)


def test_calls_without_anything_in_common_share_what_the_later_one_may_share() -> None:
    assert PromptBounds(trace(NONE, text(None, 0, None, 20))).common_prefix(0, 1) == (0, 20)


@pytest.mark.parametrize(("link", "expected"), [(None, (0, 0)), (SharedPrefixLink("s0", 30, 10, 45), (10, 45))])
def test_calls_on_two_shared_prefixes_share_what_those_do(
    link: SharedPrefixLink | None, expected: tuple[int, int]
) -> None:
    shared = (SharedPrefix("s0", "system", 60), SharedPrefix("s1", "system", 60, link))
    bounds = PromptBounds(trace(text("s0", 60, 50, 70), text("s1", 60, 50, 70), shared=shared))

    assert bounds.common_prefix(0, 1) == expected
