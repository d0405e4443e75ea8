from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_worlds import World, common, trace_of, worlds

from rotoscope.traces import Call, Prefix, SharedPrefix, SharedPrefixLink, Trace
from rotoscope.traces.analysis.optimum import Assumptions, Level, planned_hits
from rotoscope.traces.analysis.profiles import EngineProfile

PROFILES = [None, *(EngineProfile("x", b, keeps, "test") for b, keeps in product((1, 2, 3), (True, False)))]


def brute_force(world: World, assumptions: Assumptions) -> list[int]:
    """Compare every prompt with every donor, token by token."""
    hits = []
    profile = assumptions.profile
    for number, call in enumerate(world.calls):
        cached = list(world.shared) if assumptions.preload else []
        for donor in world.calls[:number]:
            if donor.domain != call.domain:
                continue
            kept = len(donor.output) if profile is None else max(len(donor.output) - 1, 0) * profile.decode_reuse
            cached.append(donor.prompt + donor.output[: kept * assumptions.decode_reuse])
        hit = max((common(call.prompt, stream) for stream in cached), default=0)
        if profile is not None:
            hit = min(hit, len(call.prompt) - 1) // profile.block_size * profile.block_size
        hits.append(hit)
    return hits


@settings(max_examples=80)
@given(worlds(), st.sampled_from(PROFILES), st.booleans(), st.booleans())
def test_one_pass_finds_what_comparing_all_tokens_finds(
    world: World, profile: EngineProfile | None, decode_reuse: bool, preload: bool
) -> None:
    assumptions = Assumptions(profile=profile, decode_reuse=decode_reuse, preload=preload)

    assert planned_hits(trace_of(world), assumptions) == brute_force(world, assumptions)


def call(number: int, prompt: int, output: int, prefix: Prefix) -> Call:
    return Call(
        call=number,
        conversation_id=0,
        message_index=0,
        prompt_tokens=prompt,
        completion_tokens=output,
        prefix=prefix,
    )


@pytest.mark.parametrize(("level", "expected"), [("low", 8), ("n", 12), ("high", 14)])
def test_each_level_believes_its_own_bound(level: Level, expected: int) -> None:
    trace = Trace(
        trace_id="00000000",
        campaign="11111111",
        token_source="usage",
        events=(
            call(0, 10, 2, Prefix(None, 0, "text")),
            call(1, 20, 1, Prefix(0, 12, "text", 8, 14)),
        ),
    )

    assert planned_hits(trace, Assumptions(level=level)) == [0, expected]


def test_an_unseen_history_may_be_a_hit_at_the_high_level_only() -> None:
    trace = Trace(
        trace_id="00000000",
        campaign="11111111",
        token_source="usage",
        events=(call(0, 10, 2, Prefix(None, 0, "opaque", 0, 10)),),
    )

    assert planned_hits(trace) == [0]
    assert planned_hits(trace, Assumptions(level="high")) == [10]


@pytest.mark.parametrize(("level", "expected"), [("low", 0), ("n", 20), ("high", 35)])
def test_bounds_between_shared_prefixes_count_for_their_uses(level: Level, expected: int) -> None:
    trace = Trace(
        trace_id="00000000",
        campaign="11111111",
        token_source="usage",
        shared_prefixes=(
            SharedPrefix("s0", "system", 30),
            SharedPrefix("s1", "system", 40, SharedPrefixLink("s0", 20, low=0, high=35)),
        ),
        events=(call(0, 50, 2, Prefix("s0", 30, "text", 30, 40)), call(1, 60, 1, Prefix("s1", 40, "text"))),
    )

    assert planned_hits(trace, Assumptions(level=level, preload=False))[1] == expected
