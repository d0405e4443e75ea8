from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from token_worlds import Tokens, World, common, worlds

from rotoscope.traces.analysis.profiles import EngineProfile
from rotoscope.traces.analysis.realised import SentStream, realised_hits

profiles = st.builds(EngineProfile, st.just("x"), st.integers(1, 3), st.booleans(), st.just("test"))


@dataclass(frozen=True)
class Times:
    sent_s: float
    first_token_s: float | None


@st.composite
def timed_worlds(draw: st.DrawFn) -> tuple[World, list[Times]]:
    world = draw(worlds(domains=1, chance=True))
    times = []
    for _ in world.calls:
        sent = draw(st.integers(0, 6))
        wait = draw(st.none() | st.integers(1, 4))
        times.append(Times(sent, None if wait is None else sent + wait))
    return world, times


def brute_force(world: World, times: list[Times], profile: EngineProfile) -> list[int]:
    hits = []
    for index, (call, time) in enumerate(zip(world.calls, times, strict=True)):
        donors: list[Tokens] = []
        for other, (donor, sent) in enumerate(zip(world.calls, times, strict=True)):
            if other != index and time.first_token_s is not None and sent.sent_s < time.first_token_s:
                kept = max(len(donor.output) - 1, 0) if profile.decode_reuse else 0
                donors.append(donor.prompt + donor.output[:kept])
        hit = max((common(call.prompt, donor) for donor in donors), default=0)
        hit = min(hit, len(call.prompt) - 1) // profile.block_size * profile.block_size
        hits.append(hit if time.first_token_s is not None else 0)
    return hits


def sent_streams(world: World, times: list[Times], data: st.DataObject) -> list[SentStream]:
    streams: list[tuple[Tokens, SentStream]] = []
    for shared in world.shared:
        streams.append((shared, _sent(shared, len(shared), streams, Times(0, None), data, sent=False)))
    for call, time in zip(world.calls, times, strict=True):
        streams.append((call.stream, _sent(call.stream, len(call.prompt), streams, time, data)))
    return [stream for _, stream in streams]


def _sent(
    tokens: Tokens,
    prompt_tokens: int,
    before: list[tuple[Tokens, SentStream]],
    time: Times,
    data: st.DataObject,
    sent: bool = True,
) -> SentStream:
    """Name any earlier stream and any part of what is shared with it: the answer must not depend on it."""
    of = data.draw(st.none() | st.integers(0, len(before) - 1)) if before else None
    shared = 0 if of is None else data.draw(st.integers(0, common(tokens, before[of][0])))
    return SentStream(
        of=of,
        shared=shared,
        tail=np.array(tokens[shared:], np.uint32),
        prompt_tokens=prompt_tokens,
        sent_s=time.sent_s if sent else None,
        first_token_s=time.first_token_s,
    )


@settings(max_examples=80)
@given(timed_worlds(), profiles, st.data())
def test_the_tree_finds_what_comparing_all_tokens_finds(
    timed: tuple[World, list[Times]], profile: EngineProfile, data: st.DataObject
) -> None:
    world, times = timed
    streams = sent_streams(world, times, data)

    hits = realised_hits(streams, profile)

    assert hits[len(world.shared) :] == brute_force(world, times, profile)
    assert hits[: len(world.shared)] == [0] * len(world.shared)
