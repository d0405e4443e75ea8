"""Claim: the body of a 100,000-token turn that extends the last one by 1,000 tokens takes at least 20 times less CPU than
json.dumps of its list of ids, drawing the new ids included.

Prints the median CPU seconds of both and their ratio; exits 1 when it is less than 20. Then, without a limit, what a
turn costs on average in conversations of 2,000 turns up to 100,000 tokens: one that grows, and one whose every turn
rewrites the end of the last. Last, the body of the first turn as messages of words.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from rotoscope.replayer.candidates import families
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.messages import Messages
from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.replayer.words import Words
from rotoscope.traces import Call, Prefix, Trace

TOKENS = 100_000
ADDED = 1_000
OUTPUT = 200
ROUNDS = 101
TURNS = 2_000
LIMIT = 20
WORDS = 400
VOCABULARY = Vocabulary(1_000, 129_000)


def conversation(prompts: Sequence[int], *, output: int, kept: Callable[[Call], int]) -> Trace:
    """Return a conversation with prompts of these lengths, each of which begins like the one before."""
    calls: list[Call] = []
    for number, tokens in enumerate(prompts):
        prefix = Prefix(number - 1, kept(calls[-1]), "ids") if calls else Prefix(None, 0, "ids")
        calls.append(
            Call(
                call=number,
                conversation_id=0,
                message_index=number,
                prompt_tokens=tokens,
                completion_tokens=output,
                prefix=prefix,
            )
        )
    return Trace(trace_id="00000000", campaign="11111111", token_source="usage", events=tuple(calls))


def session_of(trace: Trace) -> SessionPrompts:
    """Return the prompts of one session that performs the trace."""
    return PromptPlan([trace], seed=0, salt="benchmark", sessions=1, vocabulary=VOCABULARY).session(0)


def session_of_words(trace: Trace) -> SessionPrompts:
    """Return them as messages of words."""
    words = Words(families()[0][:WORDS])
    rendering = Messages(words, ChatTemplate(head=5, turn=5, back=5, tail=5, common=5))
    plan = PromptPlan([trace], seed=0, salt="benchmark", sessions=1, vocabulary=words.vocabulary, rendering=rendering)
    return plan.session(0)


def body_s(session: SessionPrompts, answer: list[int]) -> tuple[float, bytes]:
    """Return the CPU seconds of the second prompt of a conversation after the first has been answered, and the prompt."""
    session.prompt(0)
    start = time.process_time()
    session.output(0, answer)
    body = session.prompt(1)
    return time.process_time() - start, body


def dumps_s(ids: list[int]) -> float:
    """Return the CPU seconds of json.dumps."""
    start = time.process_time()
    json.dumps(ids)
    return time.process_time() - start


def turn_s(trace: Trace, answer: list[int]) -> float:
    """Return the CPU seconds of an average turn of a whole conversation."""
    session = session_of(trace)
    start = time.process_time()
    for turn in range(TURNS):
        session.prompt(turn)
        session.output(turn, answer)
    return (time.process_time() - start) / TURNS


def main() -> int:
    """Measure, print, and return the exit code."""
    answer = list(range(2_000, 2_000 + OUTPUT))
    turn = conversation([TOKENS - ADDED, TOKENS], output=OUTPUT, kept=lambda last: last.stream_tokens)
    ids = session_of(turn).ids(1).tolist()
    taken = [body_s(session_of(turn), answer) for _ in range(ROUNDS)]
    assert all(prompt.count(b",") == TOKENS - 1 for _, prompt in taken)
    body = statistics.median(seconds for seconds, _ in taken)
    dumps = statistics.median(dumps_s(ids) for _ in range(ROUNDS))
    print(f"body of a {TOKENS:,}-token turn that extends the last by {ADDED:,}: {body * 1e3:.3f} ms CPU")
    print(f"json.dumps of its ids: {dumps * 1e3:.3f} ms CPU, ratio {dumps / body:.0f} (limit {LIMIT})")

    growth = [TOKENS * (turn + 1) // TURNS for turn in range(TURNS)]
    grown = turn_s(conversation(growth, output=20, kept=lambda last: last.stream_tokens), answer[:20])
    rewritten = turn_s(conversation(growth, output=20, kept=lambda last: last.prompt_tokens - 5), answer[:20])
    print(f"a turn of {TURNS:,} that grow to {TOKENS:,} tokens: {grown * 1e3:.3f} ms CPU on average")
    print(f"a turn of {TURNS:,} that each rewrite the end of the last: {rewritten * 1e3:.3f} ms CPU on average")
    words = [body_s(session_of_words(turn), list(range(OUTPUT))) for _ in range(ROUNDS)]
    assert all(len(prompt) > 3 * TOKENS for _, prompt in words)
    print(f"the body of the first turn as messages: {statistics.median(s for s, _ in words) * 1e3:.3f} ms CPU")
    return 0 if dumps / body >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
