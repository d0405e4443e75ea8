"""Prompts of plain text under a real tokenizer, and of token ids: what is recorded of any two holds what they truly share."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import orjson
import pytest
from chat_wire import Wire

from rotoscope.traces import Forest, Trace
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.offline_encodings import load_encoding

WORDS = [
    "the",
    "of",
    "river",
    "town",
    "weir",
    "lock",
    "canal",
    "water",
    "was",
    "Ghent",
    "2026",
    "éü",
    "中文",
    "foo_bar()",
    "{\n}\n\n",
    "",
    "",
    "\t",
    ";",
]
RUNS = 15


@pytest.mark.parametrize("first", range(0, 4 * RUNS, RUNS))
def test_bounds_hold_for_texts_that_grow_fork_and_rewind(first: int) -> None:
    encoding = load_encoding("o200k_base")
    for seed in range(first, first + RUNS):
        prompts, trace = recorded(random.Random(seed), encoding)
        check([encoding.encode(prompt, disallowed_special=()) for prompt in prompts], trace)


def recorded(draw: random.Random, encoding: Any) -> tuple[list[str], Trace]:
    """Record a run of completions whose sizes a server counts; return its prompts and its trace."""
    wire = Wire()
    streams: list[str] = []
    prompts: list[str] = []
    for number in range(draw.randint(2, 9)):
        prompt, output = next_prompt(draw, streams, prompts), text(draw, draw.randint(0, 30))
        reason = draw.choice(["stop", "length", "length"])
        mark = reason == "stop"
        sizes = [len(encoding.encode(one, disallowed_special=())) for one in (prompt, output)]
        answer = {
            "choices": [{"index": 0, "text": output, "finish_reason": reason}],
            "usage": {"prompt_tokens": sizes[0], "completion_tokens": sizes[1] + mark},
        }
        exchange = wire.recorder.request("/v1/completions", orjson.dumps({"prompt": prompt}), at_s=float(2 * number))
        exchange.response(200, at_s=2 * number + 1.0, content_type="application/json")
        exchange.chunk(orjson.dumps(answer), at_s=2 * number + 1.0)
        exchange.end(at_s=2 * number + 1.0)
        streams.append(prompt + output)
        prompts.append(prompt)
    return prompts, wire.close()


def next_prompt(draw: random.Random, streams: list[str], prompts: list[str]) -> str:
    """Return a new prompt, one that goes on behind a stream, one that leaves it somewhere, or one that repeats another."""
    kind = draw.random()
    if not streams or kind < 0.2:
        return text(draw, draw.randint(3, 200)) or "x"
    stream = draw.choice(streams)
    if kind < 0.6:
        return stream + text(draw, draw.randint(0, 60))
    if kind < 0.8:
        return stream[: draw.randint(1, len(stream))] + text(draw, draw.randint(0, 40))
    return draw.choice(prompts)


def text(draw: random.Random, words: int) -> str:
    between = draw.choice(["", " "])
    return between.join(draw.choice(WORDS) + (" " if draw.random() < 0.7 else "") for _ in range(words))


def check(prompts: list[list[int]], trace: Trace) -> None:
    forest, bounds = Forest.of_trace(trace), PromptBounds(trace)
    for a, b in combinations(range(len(prompts)), 2):
        true = shared(prompts[a], prompts[b])
        low, high = bounds.common_prefix(a, b)
        assert low <= true <= high
        assert abs(min(forest.common_prefix(a, b), len(prompts[a]), len(prompts[b])) - true) <= 24


IDS = 3
"""So few that outputs often begin alike."""


def test_bounds_hold_for_token_ids_whose_outputs_begin_alike() -> None:
    found = 0
    for seed in range(60):
        prompts, trace = recorded_ids(random.Random(seed))
        bounds = PromptBounds(trace)
        for a, b in combinations(range(len(prompts)), 2):
            true = shared(prompts[a], prompts[b])
            low, high = bounds.common_prefix(a, b)
            assert low <= true <= high
            found += true > Forest.of_trace(trace).common_prefix(a, b)
    assert found, "no two prompts go on behind outputs that begin alike"


def recorded_ids(draw: random.Random) -> tuple[list[list[int]], Trace]:
    """Record a run of completions of token ids whose server often says what it said before."""
    wire = Wire()
    streams: list[list[int]] = []
    prompts: list[list[int]] = []
    for number in range(draw.randint(2, 9)):
        prompt = next_ids(draw, streams, prompts)
        before = [one[len(prompt) :] for one in streams if one[: len(prompt)] == prompt] if draw.random() < 0.5 else []
        output = (before[0][: draw.randint(0, len(before[0]))] if before else []) + ids(draw, draw.randint(0, 20))
        answer = {
            "choices": [{"index": 0, "text": "x", "token_ids": output, "finish_reason": "length"}],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(output)},
        }
        body = {"prompt": prompt, "return_token_ids": True}
        exchange = wire.recorder.request("/v1/completions", orjson.dumps(body), at_s=float(2 * number))
        exchange.response(200, at_s=2 * number + 1.0, content_type="application/json")
        exchange.chunk(orjson.dumps(answer), at_s=2 * number + 1.0)
        exchange.end(at_s=2 * number + 1.0)
        streams.append(prompt + output)
        prompts.append(prompt)
    return prompts, wire.close()


def next_ids(draw: random.Random, streams: list[list[int]], prompts: list[list[int]]) -> list[int]:
    kind = draw.random()
    if not streams or kind < 0.15:
        return ids(draw, draw.randint(1, 40))
    if kind < 0.6:
        return draw.choice(streams) + ids(draw, draw.randint(0, 12))
    if kind < 0.75:
        stream = draw.choice(streams)
        return stream[: draw.randint(1, len(stream))] + ids(draw, draw.randint(0, 5))
    return draw.choice(prompts)


def ids(draw: random.Random, count: int) -> list[int]:
    return [1000 + draw.randrange(IDS) for _ in range(count)]


def shared(one: list[int], other: list[int]) -> int:
    shortest = min(len(one), len(other))
    return next((i for i in range(shortest) if one[i] != other[i]), shortest)
