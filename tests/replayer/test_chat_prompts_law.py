"""Prompts of messages have the recorded lengths to the token, and share what their layout says, for any forest.

They are tokenized by a toy template and tokenizer; what they should share is worked out from the laid-out trace by R3.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import combinations

from chat_prompts import ToyTemplate, common, toy_words
from forest_truth import Node, Truth
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from replay_doubles import answered_in_pieces
from strategies import corpora, grown_by

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.messages import Messages
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.traces import Trace

Tokens = tuple[str, ...]

TEMPLATES = [
    ChatTemplate(head=2, turn=2, back=1, tail=2, common=2),
    ChatTemplate(head=1, turn=1, back=1, tail=1, common=1),
    ChatTemplate(head=3, turn=2, back=2, tail=3, common=2),
    ChatTemplate(head=1, turn=3, back=2, tail=2, common=2),
    ChatTemplate(head=2, turn=2, back=1, tail=2, common=0),
]
templates = st.sampled_from(TEMPLATES)
WORDS = toy_words(60)
"""So few that chance would often make prompts alike that should part."""


@dataclass
class Replayed:
    laid_out: list[Trace]
    prompts: dict[Node, Tokens] = field(default_factory=dict)
    ids: dict[Node, Tokens] = field(default_factory=dict)
    """What stands for the tokens in the optimum."""
    received: dict[Node, Tokens] = field(default_factory=dict)
    counted: tuple[int, int] = (0, 0)
    """Streams that did not part, and those that need more than a word to."""


def replay(traces: list[Trace], template: ChatTemplate, *, sessions: int, answers: bool) -> Replayed:
    """Return the prompts by session and call, tokenized, with answers of the server as tokens."""
    messages = Messages(WORDS, template)
    plan = PromptPlan(traces, seed=7, salt="pepper", sessions=sessions, vocabulary=WORDS.vocabulary, rendering=messages)
    toy = ToyTemplate(template)
    run = Replayed([messages.lay_out(trace).trace for trace in traces])
    with asyncio.Runner() as runner:
        for number in range(sessions):
            session = plan.session(number)
            for call in traces[number % len(traces)].calls():
                name = ("session", number, call.call)
                run.prompts[name] = toy.tokens(session.prompt(call.call))
                run.ids[name] = tuple(map(str, session.ids(call.call).tolist()))
                pieces = [
                    chr(0x4E00 + (97 * number + 31 * call.call + 7 * n) % 20_000) for n in range(call.completion_tokens)
                ]
                if answers and pieces:
                    runner.run(session.answered(call.call, answered_in_pieces(pieces)))
                    run.received[name] = tuple(pieces)
            session.close()
    run.counted = plan.unseparated, plan.crowded
    return run


@st.composite
def grown(draw: st.DrawFn) -> list[Trace]:
    """Draw traces whose numbers of tokens are all multiples of one: some have no room for a template, some have."""
    traces, factor = draw(corpora()), draw(st.sampled_from([1, 1, 3, 10]))
    return [grown_by(trace, factor) for trace in traces]


@settings(max_examples=80)
@given(grown(), templates, st.integers(1, 4), st.booleans())
def test_prompts_have_their_lengths_and_share_what_is_laid_out(
    traces: list[Trace], template: ChatTemplate, sessions: int, answers: bool
) -> None:
    run = replay(traces, template, sessions=sessions, answers=answers)

    recorded, laid_out = Truth.of(traces, sessions), Truth.of(run.laid_out, sessions)
    unseparated, crowded = run.counted
    assume(not crowded)
    assert not unseparated
    for name, tokens in run.prompts.items():
        assert len(tokens) == max(recorded.prompt_tokens[name], template.least_prompt)
    for a, b in combinations(run.prompts, 2):
        ends = min(len(run.prompts[a]), len(run.prompts[b]))
        found = common(run.prompts[a], run.prompts[b])
        assert common(run.ids[a], run.ids[b]) == found
        expected = min(max(template.head, laid_out.common(a, b)), ends)
        # prompts of two sessions that end where a shared prefix does have the template behind it in common, too
        assert found == expected or expected < found <= min(recorded.common(a, b) + template.turn, ends)


@settings(max_examples=50)
@given(grown(), templates.filter(lambda template: template.takes_answers_up), st.integers(1, 3))
def test_what_messages_change_of_a_forest_is_bounded_by_the_template(
    traces: list[Trace], template: ChatTemplate, sessions: int
) -> None:
    run = replay(traces, template, sessions=sessions, answers=True)

    recorded = Truth.of(traces, sessions)
    most = template.head + template.turn + template.back + template.tail
    for a, b in combinations(run.prompts, 2):
        lengths = min(recorded.prompt_tokens[a], recorded.prompt_tokens[b])
        change = common(run.prompts[a], run.prompts[b]) - min(recorded.common(a, b), lengths)
        assert abs(change) <= most + 1
