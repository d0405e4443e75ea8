from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from event_loops import in_jumping_loop
from hypothesis import given
from hypothesis import strategies as st
from replay_doubles import VOCABULARY, VirtualServer, part_of
from strategies import corpora

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.lanes import Lanes
from rotoscope.replayer.load.plan import closed_loop
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.results import ResultsFolder
from rotoscope.replayer.sent import Origin
from rotoscope.replayer.token_streams import CallName
from rotoscope.testing import make_call, trace_of
from rotoscope.traces import ParallelStart, Prefix, SharedPrefix, Trace
from rotoscope.traces.analysis.profiles import PROFILES, EngineProfile

FAILURES = st.dictionaries(
    st.integers(0, 8),
    st.just((0, FailureKind.REFUSED)) | st.tuples(st.integers(0, 2), st.just(FailureKind.CUT_STREAM)),
)


class TappedServer(VirtualServer):
    """Keeps all that went over the wire, in the order in which requests ended."""

    ended: list[Exchange]
    refused: list[bool]

    async def perform(self, exchange: Exchange) -> Failure | None:
        failure = None
        try:
            failure = await super().perform(exchange)
        finally:
            self.ended.append(exchange)
            self.refused.append(failure == Failure(FailureKind.REFUSED))
        return failure


def lanes_of(traces: list[Trace], server: VirtualServer, *, sessions: int, concurrency: int) -> Lanes:
    return Lanes(
        PromptPlan(traces, seed=1, salt="salt", sessions=sessions, vocabulary=VOCABULARY),
        [part_of(trace) for trace in traces],
        load=closed_loop(sessions, concurrency, ramp_s=0.0, seed=1),
        backend=server,
        clock=LoopClock(),
        results=ResultsFolder(Path("nowhere"), io.BytesIO(), io.BytesIO()),
        on_request=lambda performed: None,
    )


def optimum_by_brute_force(server: TappedServer, profile: EngineProfile) -> list[int]:
    """Compare every prompt with every stream that was sent before its first token arrived, token by token."""
    prompts = [json.loads(exchange.prompt) for exchange in server.ended]
    hits = []
    for exchange, prompt in zip(server.ended, prompts, strict=True):
        best = 0
        for other, others_prompt, was_refused in zip(server.ended, prompts, server.refused, strict=True):
            if other is exchange or was_refused or exchange.first_token_s is None:
                continue
            if other.sent_s is not None and other.sent_s < exchange.first_token_s:
                kept = others_prompt + (other.output_ids[:-1] if profile.decode_reuse else [])
                best = max(best, common(prompt, kept))
        hits.append(min(best, len(prompt) - 1) // profile.block_size * profile.block_size)
    return hits


def common(a: list[int], b: list[int]) -> int:
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


@given(corpora(), st.integers(1, 5), st.integers(1, 3), FAILURES, st.sampled_from(["token", "prompt-only", "vllm"]))
def test_the_optimum_is_that_of_what_went_over_the_wire(
    traces: list[Trace], sessions: int, concurrency: int, fails: dict[int, tuple[int, FailureKind]], profile: str
) -> None:
    @in_jumping_loop
    async def perform() -> None:
        server = TappedServer(fails=fails)
        server.ended, server.refused = [], []
        lanes = lanes_of(traces, server, sessions=sessions, concurrency=concurrency)
        await lanes.perform()

        optimum = lanes.sent.optimal_tokens(lanes.requests, PROFILES[profile])

        assert optimum == optimum_by_brute_force(server, PROFILES[profile])

    perform()


@in_jumping_loop
async def test_a_call_may_end_before_the_one_that_it_begins_like() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, 50, osl=9, branch=(0, 0)),
        make_call(1, 60, osl=2, branch=(0, 1), prefix=Prefix(0, 30, "ids")),
    )
    lanes = lanes_of([trace], VirtualServer(), sessions=1, concurrency=1)
    await lanes.perform()

    assert [one.call for one in lanes.requests] == [1, 0]
    assert lanes.sent.optimal_tokens(lanes.requests, PROFILES["token"]) == [30, 30]


@in_jumping_loop
async def test_a_prompt_sent_before_the_run_counts_among_what_is_in_the_cache() -> None:
    trace = trace_of(make_call(0, isl=10, osl=2))
    plan = PromptPlan([trace], seed=1, salt="salt", sessions=1, vocabulary=VOCABULARY)
    lanes = lanes_of([trace], VirtualServer(), sessions=1, concurrency=1)
    ids = np.concatenate([plan.session(0).ids(0)[:6], np.array([7], np.uint32)])
    lanes.sent.add_first(ids, sent_s=-2.0, first_token_s=-1.0)

    await lanes.perform()

    assert lanes.sent.optimal_tokens(lanes.requests, PROFILES["token"]) == [6]


@in_jumping_loop
async def test_each_call_tells_what_it_begins_like() -> None:
    trace = trace_of(
        make_call(0, isl=50, osl=9, prefix=Prefix("s", 20, "ids")),
        make_call(1, isl=70, osl=2, prefix=Prefix(0, 59, "ids")),
        shared_prefixes=[SharedPrefix("s", "system", 20)],
    )
    lanes = lanes_of([trace], VirtualServer(), sessions=2, concurrency=1)

    await lanes.perform()

    begun = Origin(call=None, shared=20, own_tokens=39, prompt_tokens=50)
    grown = Origin(call=0, shared=59, own_tokens=13, prompt_tokens=70)
    assert lanes.sent.origins() == {
        CallName(0, 0): begun,
        CallName(0, 1): grown,
        CallName(1, 0): begun,
        CallName(1, 1): grown,
    }
    assert lanes.sent.shared_tokens == 20
