"""What a recording says about prefixes, against token streams of toy templates and tokenizers, pair by pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random

import pytest
from chat_worlds import TEMPLATES, TOKENIZERS, World, common, play
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.token_counters import TokenCounter
from rotoscope.traces import Call, SharedPrefixLink, Trace
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.forest import Forest
from rotoscope.traces.journal_files import parse_journal
from rotoscope.traces.validation import validate

WORLDS = {
    "seed": st.integers(0, 2**32),
    "template": st.sampled_from(sorted(TEMPLATES)),
    "tokenizer": st.sampled_from(sorted(TOKENIZERS)),
}


def played(
    seed: int,
    template: str,
    tokenizer: str,
    *,
    reports_usage: float = 1.0,
    measures: float = 0.0,
    counter: TokenCounter | None = None,
) -> tuple[World, Trace]:
    """Let an agent run in a world of its own and return what was recorded of it."""
    random = Random(seed)
    world = World(
        random,
        TEMPLATES[template],
        TOKENIZERS[tokenizer],
        counts_end_mark=random.random() < 0.7,
        thinks=random.random() < 0.5,
        reports_usage=reports_usage,
        measures=measures,
        counter=counter,
    )
    play(world, calls=random.randint(2, 14), sends_thinking_back=random.random() < 0.5)
    trace = world.recorder.close()
    assert trace is not None
    assert world.recorder.trouble == []
    validate(trace)
    return world, trace


def counted_pairs(trace: Trace) -> Iterator[tuple[int, int]]:
    """Yield the pairs of calls whose prompts the server counted."""
    of_the_server = ("usage", "tokenizer:server")
    calls = [c.call for c in trace.calls() if (c.prompt_tokens_source or trace.token_source) in of_the_server]
    return combinations(calls, 2)


def outside(world: World, trace: Trace) -> list[tuple[int, int, int, int, int]]:
    """Return the pairs whose true common prefix is not within the bounds: a, b, low, true, high."""
    bounds = PromptBounds(trace)
    found = []
    for a, b in counted_pairs(trace):
        low, high = bounds.common_prefix(a, b)
        true = common(world.prompts[a], world.prompts[b])
        if not low <= true <= high:
            found.append((a, b, low, true, high))
    return found


def links_used(trace: Trace) -> Iterator[tuple[SharedPrefixLink, Call]]:
    """Yield the calls that begin with a shared prefix which begins like another, with its link."""
    links = {shared.id: shared.prefix for shared in trace.shared_prefixes}
    for call in trace.calls():
        link = links.get(call.prefix.of) if isinstance(call.prefix.of, str) else None
        if link is not None:
            yield link, call


@settings(max_examples=50)
@given(**WORLDS)
def test_by_usage_alone_every_pair_of_prompts_is_bounded_and_lengths_are_exact(
    seed: int, template: str, tokenizer: str
) -> None:
    world, trace = played(seed, template, tokenizer)

    assert [call.prompt_tokens for call in trace.calls()] == [len(prompt) for prompt in world.prompts]
    assert [call.completion_tokens for call in trace.calls()] == [len(output) for output in world.outputs]
    assert outside(world, trace) == []
    assert all(link.greatest >= call.prefix.greatest for link, call in links_used(trace))


@settings(max_examples=40)
@given(**WORLDS, reports_usage=st.sampled_from([0.5, 1.0]))
@example(seed=363655510, template="tools first", tokenizer="bytes", reports_usage=1.0)  # a shared prefix seen later
@example(seed=1634843797, template="no tools, default system", tokenizer="words", reports_usage=1.0)
@example(seed=688637436, template="no tools, default system", tokenizer="merged", reports_usage=0.5)
def test_bounds_hold_where_some_prompts_are_measured_and_some_not_even_counted(
    seed: int, template: str, tokenizer: str, reports_usage: float
) -> None:
    world, trace = played(seed, template, tokenizer, reports_usage=reports_usage, measures=0.5)

    assert outside(world, trace) == []


@settings(max_examples=40)
@given(**WORLDS, reports_usage=st.sampled_from([0.0, 1.0]))
def test_measured_prompts_make_every_pair_exact(seed: int, template: str, tokenizer: str, reports_usage: float) -> None:
    world, trace = played(seed, template, tokenizer, reports_usage=reports_usage, measures=1.0)
    forest = Forest.of_trace(trace)

    assert outside(world, trace) == []
    for a, b in combinations(range(len(world.prompts)), 2):
        limit = min(len(world.prompts[a]), len(world.prompts[b]))
        assert min(forest.common_prefix(a, b), limit) == common(world.prompts[a], world.prompts[b])


@settings(max_examples=40)
@given(**WORLDS)
def test_nothing_that_was_counted_gives_a_trace_all_the_same(seed: int, template: str, tokenizer: str) -> None:
    world, trace = played(seed, template, tokenizer, reports_usage=0.0)

    assert len(list(trace.calls())) == len(world.prompts)
    assert trace.token_source == "estimate"


@dataclass(frozen=True)
class AnyCounter:
    """Counts as one of the toy tokenizers does, and so many times as much."""

    tokenizer: str
    times: float
    name: str = "any"

    def count(self, text: str) -> int:
        return round(len(TOKENIZERS[self.tokenizer](text)) * self.times)


@settings(max_examples=40)
@given(
    **WORLDS,
    counter=st.builds(AnyCounter, WORLDS["tokenizer"], st.sampled_from([0.0, 0.3, 1.0, 1.1, 30.0])),
    reports_usage=st.sampled_from([0.5, 1.0]),
    measures=st.sampled_from([0.0, 0.5]),
)
def test_bounds_hold_whatever_a_tokenizer_at_hand_counts_and_a_journal_gives_the_same_trace(
    seed: int, template: str, tokenizer: str, counter: AnyCounter, reports_usage: float, measures: float
) -> None:
    world, trace = played(seed, template, tokenizer, reports_usage=reports_usage, measures=measures, counter=counter)

    assert outside(world, trace) == []
    assert build_trace(parse_journal(world.journal.getvalue())).trace == trace


@given(**WORLDS)
def test_outputs_that_the_servers_own_tokenizer_counts_are_near_the_truth(
    seed: int, template: str, tokenizer: str
) -> None:
    counter = AnyCounter(tokenizer, 1.0)
    world, trace = played(seed, template, tokenizer, reports_usage=0.0, counter=counter)

    for call, output in zip(trace.calls(), world.outputs, strict=True):
        wrapped = 16 + 24 * len(call.tool_calls)
        assert abs(call.completion_tokens - len(output)) <= wrapped * (4 if tokenizer == "bytes" else 1)


def test_estimates_are_near_the_truth_in_an_ordinary_world() -> None:
    errors, tokens = 0, 0
    for seed in range(20):
        world, trace = played(seed, "tools in the system block", "words")
        forest = Forest.of_trace(trace)
        for a, b in combinations(range(len(world.prompts)), 2):
            true = common(world.prompts[a], world.prompts[b])
            errors += abs(min(forest.common_prefix(a, b), len(world.prompts[a]), len(world.prompts[b])) - true)
            tokens += true

    assert errors / tokens < 0.06


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_toy_tokenizers_lose_no_visible_character(tokenizer: str) -> None:
    text = "The file  foo(bar)\n é"

    assert "".join("".join(TOKENIZERS[tokenizer](text)).split()).replace("\xc3\xa9", "é") == "".join(text.split())
