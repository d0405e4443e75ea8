"""The prefix law (L2): prompts of a replay have the common prefixes and lengths of their traces, and no others.

What traces say is worked out over plain tuples, from rule R3 alone; what prompts share is counted token by token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from forest_truth import Node, Truth
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.token_streams import SharedName, StreamName
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces import Trace

Tokens = tuple[int, ...]

LARGE = Vocabulary(1000, 33_000)
vocabularies = st.sampled_from([Vocabulary(0, 2), Vocabulary(7, 10), Vocabulary(5, 25), Vocabulary(90, 190), LARGE])


def common(a: Tokens, b: Tokens) -> int:
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


Server = Callable[[int, int, int], list[int] | None]
"""Answers call `call` of session `session` with so many ids, or with text only (None)."""


def silent(session: int, call: int, tokens: int) -> None:
    return None


@dataclass
class Replayed:
    prompts: dict[Node, Tokens]
    """The prompts sent, and the shared prefixes that they begin with."""
    received: dict[Node, Tokens]
    unseparated: int
    crowded: int

    def misfits(self, truth: Truth) -> list[tuple[Node, Node, int, int]]:
        """Return the pairs of a prompt and a stream that share another number of tokens than the traces say."""
        found = []
        streams = {name: prompt + self.received.get(name, ()) for name, prompt in self.prompts.items()}
        for a, b in combinations(self.prompts, 2):
            for prompt, stream in ((a, b), (b, a)):
                tokens = common(self.prompts[prompt], streams[stream])
                expected = min(truth.common(a, b), len(self.prompts[prompt]), len(streams[stream]))
                if tokens != expected:
                    found.append((prompt, stream, tokens, expected))
        return found


def replay(traces: list[Trace], vocabulary: Vocabulary, *, sessions: int, server: Server = silent) -> Replayed:
    """Send all prompts, session by session, and take them from the bytes that would be sent."""
    plan = PromptPlan(traces, seed=7, salt="pepper", sessions=sessions, vocabulary=vocabulary)
    run = Replayed({}, {}, 0, plan.crowded)
    for number in range(sessions):
        session = plan.session(number)
        for call in traces[number % len(traces)].calls():
            name = ("session", number, call.call)
            run.prompts[name] = tuple(json.loads(session.prompt(call.call)))
            ids = server(number, call.call, call.completion_tokens)
            session.output(call.call, ids)
            run.received[name] = tuple(ids or ())
            of = session.sent(call.call).of
            while isinstance(of, SharedName):
                run.prompts[truth_name(of)] = shared_tokens(plan, of)
                of = plan.shared_prefix(of).of
        session.close()
    run.unseparated = plan.unseparated
    return run


def truth_name(name: SharedName) -> Node:
    return (name.campaign, name.id, "all" if name.copy is None else name.copy, name.domain)


def shared_tokens(plan: PromptPlan, name: StreamName | None) -> Tokens:
    if name is None:
        return ()
    assert isinstance(name, SharedName)
    shared = plan.shared_prefix(name)
    return shared_tokens(plan, shared.of)[: shared.shared] + tuple(int(token) for token in shared.tail)


@given(corpora(), vocabularies, st.integers(1, 5))
def test_prompts_share_what_the_traces_say(traces: list[Trace], vocabulary: Vocabulary, sessions: int) -> None:
    truth = Truth.of(traces, sessions)

    run = replay(traces, vocabulary, sessions=sessions)

    assert {name: len(run.prompts[name]) for name in run.received} == truth.prompt_tokens
    misfits = run.misfits(truth)
    assert all(tokens > expected for _, _, tokens, expected in misfits)
    assert bool(misfits) == bool(run.unseparated)
    if run.crowded == 0:
        assert not misfits


@given(corpora(), st.integers(1, 4))
def test_a_large_vocabulary_crowds_nobody(traces: list[Trace], sessions: int) -> None:
    run = replay(traces, LARGE, sessions=sessions)

    assert run.crowded == 0
    assert run.misfits(Truth.of(traces, sessions)) == []


@st.composite
def servers(draw: st.DrawFn, traces: list[Trace], vocabulary: Vocabulary, sessions: int) -> Server:
    """Draw servers that answer all alike, with what their prompts' successors begin with, too little, too much."""
    plan = PromptPlan(traces, seed=7, salt="pepper", sessions=sessions, vocabulary=vocabulary)
    constant = draw(st.integers(vocabulary.low, vocabulary.high - 1))
    bait: dict[tuple[int, int], list[int]] = {}
    for number in range(sessions):
        trace, session = traces[number % len(traces)], plan.session(number)
        for call in trace.calls():
            if isinstance(call.prefix.of, int) and call.prefix.tokens < call.prompt_tokens:
                bait[number, call.prefix.of] = _first_own(session, call.call, call.prefix.tokens, trace)
    habits = draw(st.lists(st.sampled_from(["same", "bait", "short", "long", "silent"]), min_size=1, max_size=4))

    def answer(session: int, call: int, tokens: int) -> list[int] | None:
        habit = habits[(session + call) % len(habits)]
        ids = {
            "same": [constant] * tokens,
            "bait": (bait.get((session, call), []) + [constant] * tokens)[:tokens],
            "short": [constant] * (tokens // 2),
            "long": [constant] * (tokens + 2),
        }
        return ids.get(habit)

    return answer


def _first_own(session: SessionPrompts, call: int, leaves_at: int, trace: Trace) -> list[int]:
    """What the stream of `of` would have to answer to go on like the prompt of a call that leaves it."""
    calls = {c.call: c for c in trace.calls()}
    of = calls[call].prefix.of
    assert isinstance(of, int)
    return [int(token) for token in session.ids(call)[calls[of].prompt_tokens : leaves_at + 1]]


@given(st.data(), corpora(), vocabularies, st.integers(1, 4))
def test_what_a_server_keeps_from_parting_is_counted(
    data: st.DataObject, traces: list[Trace], vocabulary: Vocabulary, sessions: int
) -> None:
    server = data.draw(servers(traces, vocabulary, sessions))
    truth = Truth.of(traces, sessions)

    run = replay(traces, vocabulary, sessions=sessions, server=server)

    assert {name: len(run.prompts[name]) for name in run.received} == truth.prompt_tokens
    misfits = run.misfits(truth)
    assert all(tokens > expected for _, _, tokens, expected in misfits)
    assert bool(misfits) == bool(run.unseparated), misfits
