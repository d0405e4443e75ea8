from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.testing import make_call
from rotoscope.traces.analysis.profiles import PROFILES, EngineProfile, profile_named, resident_tokens, usable_hit
from rotoscope.traces.errors import UnusableInput

names = st.sampled_from(sorted(PROFILES))


@pytest.mark.parametrize(
    ("name", "prompt", "common", "hit"),
    [
        ("vllm", 2000, 2000, 1984),
        ("vllm", 2001, 2001, 2000),
        ("vllm", 2500, 2000, 2000),
        ("trtllm", 2000, 1990, 1990),
        ("trtllm-whole-blocks", 2000, 1990, 1984),
        ("sglang", 2000, 2000, 1999),
        ("llama.cpp", 2500, 1000, 1000),
        ("dynamo-mocker", 129, 129, 128),
        ("token", 1, 1, 0),
    ],
)
def test_the_last_token_is_computed_and_whole_blocks_are_reused(name: str, prompt: int, common: int, hit: int) -> None:
    assert usable_hit(PROFILES[name], common, prompt) == hit


@given(names, st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 512))
def test_a_hit_leaves_a_token_to_compute_and_grows_with_what_is_shared(
    name: str, prompt: int, common: int, block: int
) -> None:
    profile = profile_named(name, block_size=block)

    hit = usable_hit(profile, common, prompt)
    assert 0 <= hit <= min(common, prompt - 1)
    assert hit % block == 0
    assert min(common, prompt - 1) - hit < block
    assert usable_hit(profile, common + 1, prompt) >= hit


@pytest.mark.parametrize(
    ("name", "output", "resident"),
    [("vllm", 20, 119), ("vllm", 1, 100), ("vllm", 0, 100), ("dynamo-mocker", 20, 100), ("llama.cpp", 20, 119)],
)
def test_what_stays_of_a_call(name: str, output: int, resident: int) -> None:
    assert resident_tokens(PROFILES[name], 100, output) == resident
    assert PROFILES[name].resident_tokens(make_call(isl=100, osl=output)) == resident


def test_thinking_stays_or_takes_its_answer_with_it() -> None:
    thinking, plain = make_call(isl=100, osl=20, reasoning_tokens=5), make_call(isl=100, osl=20)

    assert PROFILES["sglang"].resident_tokens(thinking) == 119
    assert PROFILES["sglang-strip-thinking"].resident_tokens(thinking) == 100
    assert PROFILES["sglang-strip-thinking"].resident_tokens(plain) == 119


def test_only_the_block_size_of_a_profile_is_replaced() -> None:
    wider = profile_named("dynamo-mocker", block_size=16)

    assert wider == EngineProfile(
        "dynamo-mocker", 16, False, PROFILES["dynamo-mocker"].source, PROFILES["dynamo-mocker"].evidence
    )
    assert profile_named("dynamo-mocker") == PROFILES["dynamo-mocker"]


@pytest.mark.parametrize(
    ("name", "block_size", "message"), [("nim", None, "choose one of token"), ("vllm", 0, "block size 0")]
)
def test_what_is_no_profile_is_refused(name: str, block_size: int | None, message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        profile_named(name, block_size=block_size)


def test_the_five_families_are_there_and_say_where_they_are_known_from() -> None:
    families = ("vllm", "sglang", "trtllm", "llama.cpp", "dynamo-mocker")

    assert [PROFILES[name].evidence for name in families] == [
        "measurement",
        "documentation",
        "documentation",
        "measurement",
        "measurement",
    ]
    assert all(profile.source for profile in PROFILES.values())
