"""What a recording says about prefixes holds in every dialect, whatever the template of the server that speaks it."""

from __future__ import annotations

from random import Random

from chat_worlds import TEMPLATES, TOKENIZERS, World, common, play
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from speech import SPEECHES, Speech, StatefulResponses

from rotoscope.traces import Trace
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.validation import validate


def played(
    seed: int, speech: Speech, template: str, tokenizer: str, *, heard: float = 1.0, keeps_thinking: bool = False
) -> tuple[World, Trace]:
    """Let an agent run in a world of its own and return what was recorded of it."""
    random = Random(seed)
    world = World(
        random,
        TEMPLATES[template],
        TOKENIZERS[tokenizer],
        counts_end_mark=random.random() < 0.7,
        thinks=random.random() < 0.5,
        speech=speech,
        heard=heard,
    )
    play(world, calls=random.randint(2, 12), sends_thinking_back=keeps_thinking or random.random() < 0.5)
    trace = world.recorder.close()
    assume(trace is not None)
    assert trace is not None
    assert world.recorder.trouble == []
    validate(trace)
    return world, trace


@settings(max_examples=50)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["messages", "responses", "gemini"]),
    st.sampled_from(sorted(TEMPLATES)),
    st.sampled_from(sorted(TOKENIZERS)),
)
def test_every_pair_of_prompts_is_bounded_in_every_dialect(
    seed: int, speech: str, template: str, tokenizer: str
) -> None:
    world, trace = played(seed, SPEECHES[speech], template, tokenizer)

    assert [call.prompt_tokens for call in trace.calls()] == [len(prompt) for prompt in world.prompts]
    assert outside(world, trace) == []


@settings(max_examples=50)
@example(11855, "no marks", "bytes", 0.7)  # a history that was not seen, behind which another goes on
@given(
    st.integers(0, 2**32),
    st.sampled_from(sorted(TEMPLATES)),
    st.sampled_from(sorted(TOKENIZERS)),
    st.sampled_from([1.0, 0.7]),
)
def test_every_pair_of_prompts_is_bounded_where_the_server_keeps_what_was_said(
    seed: int, template: str, tokenizer: str, heard: float
) -> None:
    world, trace = played(seed, StatefulResponses(), template, tokenizer, heard=heard, keeps_thinking=True)

    assert [call.prompt_tokens for call in trace.calls()] == [len(prompt) for prompt in world.prompts]
    assert outside(world, trace) == []


def outside(world: World, trace: Trace) -> list[tuple[int, int, int, int, int]]:
    """Return the pairs whose true common prefix is not within the bounds: a, b, low, true, high."""
    bounds, calls = PromptBounds(trace), range(len(world.prompts))
    return [
        (a, b, low, true, high)
        for b in calls
        for a in calls[:b]
        for low, high in [bounds.common_prefix(a, b)]
        if not low <= (true := common(world.prompts[a], world.prompts[b])) <= high
    ]
