"""What prompts of Weka files should have been like, and how far those that a server got are from it.

The recorded lengths are those of the files. A request shares with earlier ones of its file as many leading blocks as
its block ids say. A cache that never evicts serves the sum of these over all prompts, in whatever order they come: what
is left is the size of the tree of all prompts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

BLOCK_SIZES = (1, 16, 64)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as recorded, or as a server got it."""

    tokens: int
    output_tokens: int
    shared_tokens: int
    """Leading tokens in which it is like the earlier prompt that is most like it."""
    repeats_a_role: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """How prompts differ from those recorded."""

    prompts: int
    tokens: int
    recorded_tokens: int
    least: int
    median: float
    most: int
    """Tokens a prompt is longer than recorded."""
    exact: int
    """Prompts of the recorded length."""
    hit_rates: tuple[float, ...]
    """Of a cache that never evicts, one for each of `BLOCK_SIZES`."""
    recorded_hit_rates: tuple[float, ...]
    extra_hits: int
    """Tokens that such a cache has beyond those recorded."""
    first_prompts: int
    """Prompts that share nothing with an earlier one, as recorded."""
    repeats_a_role: int

    @property
    def is_exact(self) -> bool:
        """Whether lengths and hits in blocks are those recorded.

        With messages, prompts that should share nothing share the first token of the template, but no block.
        """
        in_blocks = self.hit_rates[1:] == self.recorded_hit_rates[1:]
        return self.exact == self.prompts and in_blocks and 0 <= self.extra_hits <= self.first_prompts


def recorded_prompts(files: Iterable[Path], *, by_model: bool = True) -> list[Prompt]:
    """Return the prompts that the files record; `by_model`: no model has another one's blocks in its cache."""
    return [prompt for file in files for prompt in _of_file(orjson.loads(file.read_bytes()), by_model)]


def sent_prompts(lines: bytes) -> list[Prompt]:
    """Return the prompts that `sent_prompts.py` told of."""
    told = map(orjson.loads, lines.splitlines())
    return [
        Prompt(one["prompt_tokens"], one["output_tokens"], one["shared_tokens"], one["repeats_a_role"]) for one in told
    ]


def drift(sent: Sequence[Prompt], recorded: Sequence[Prompt]) -> Drift | None:
    """Compare prompt by prompt; None where other outputs were asked for than recorded, so that none can be paired.

    Prompts of equal output length are paired by their own: no other way of pairing finds less drift.
    """
    pairs = list(zip(_ordered(sent), _ordered(recorded), strict=False))
    if len(sent) != len(recorded) or any(one.output_tokens != other.output_tokens for one, other in pairs):
        return None
    longer = [one.tokens - other.tokens for one, other in pairs]
    return Drift(
        prompts=len(sent),
        tokens=sum(one.tokens for one in sent),
        recorded_tokens=sum(one.tokens for one in recorded),
        least=min(longer),
        median=statistics.median(longer),
        most=max(longer),
        exact=longer.count(0),
        hit_rates=hit_rates(sent),
        recorded_hit_rates=hit_rates(recorded),
        extra_hits=sum(one.shared_tokens for one in sent) - sum(one.shared_tokens for one in recorded),
        first_prompts=sum(not one.shared_tokens for one in recorded),
        repeats_a_role=sum(one.repeats_a_role for one in sent),
    )


def hit_rates(prompts: Sequence[Prompt]) -> tuple[float, ...]:
    """Return the share of prompt tokens that a cache with blocks of each size would have, if it never evicted."""
    tokens = sum(prompt.tokens for prompt in prompts)
    return tuple(sum(prompt.shared_tokens // size * size for prompt in prompts) / tokens for size in BLOCK_SIZES)


def _ordered(prompts: Iterable[Prompt]) -> list[Prompt]:
    return sorted(prompts, key=lambda prompt: (prompt.output_tokens, prompt.tokens))


def _of_file(trace: dict[str, Any], by_model: bool) -> Iterator[Prompt]:
    seen: set[tuple[str, int]] = set()
    for request in _in_order_of_time(trace):
        blocks = [(request["model"] if by_model else "", block) for block in request["hash_ids"]]
        shared = next((number for number, block in enumerate(blocks) if block not in seen), len(blocks))
        seen.update(blocks)
        output_tokens = max(1, request["out"])  # no server generates nothing
        yield Prompt(request["in"], output_tokens, shared * trace["block_size"])


def _in_order_of_time(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return requests and those of sub-agents; a time of these before their entry's counts from there."""
    timed = []
    for entry in trace["requests"]:
        if entry["type"] == "subagent":
            times = [inner["t"] if inner["t"] >= entry["t"] else entry["t"] + inner["t"] for inner in entry["requests"]]
            timed += list(zip(times, entry["requests"], strict=True))
        else:
            timed.append((entry["t"], entry))
    return [request for _, request in sorted(timed, key=lambda one: one[0])]
