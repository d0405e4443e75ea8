"""What TensorRT-LLM's replay of a written file performs otherwise than the trace says (R12).

A call is alike when its prompt is as long and begins like the same earlier stream, as far (`trtllm_replay.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.trtllm_order import Order, calls_of, ordered
from rotoscope.traces.formats.trtllm_replay import Prompt, recorded_prompts, replayed_prompts
from rotoscope.traces.formats.trtllm_writer import events_of
from rotoscope.traces.model import Call, DropKvCache, Trace


@dataclass(frozen=True, slots=True)
class Unlike:
    """Something that is replayed otherwise there."""

    what: Literal["call", "region", "drop"]
    number: int
    """Of the call or region; of a dropped cache the index of the event."""
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {self.number}: {self.reason}"


def unlike(trace: Trace) -> list[Unlike]:
    """Return all that TensorRT-LLM's replay of the written file does otherwise than the trace says."""
    trace = normalise(trace)
    order = ordered(trace)
    drops = [
        Unlike("drop", index, "only a server of TensorRT-LLM can be told to drop its cache")
        for index, event in enumerate(trace.events)
        if isinstance(event, DropKvCache)
    ]
    return [*_unlike_calls(trace, order), *_unlike_regions(order), *drops]


def _unlike_regions(order: Order) -> Iterator[Unlike]:
    for region in order.merged:
        yield Unlike("region", region, "overlaps another one of its branch, and starts and joins with it there")
    for region in order.unjoined:
        yield Unlike("region", region, "is never joined here, and when its branch is over there")
    for region in order.held_up:
        yield Unlike("region", region, "branches beside it stand still there until it is joined")


def _unlike_calls(trace: Trace, order: Order) -> Iterator[Unlike]:
    calls = calls_of(order.steps)
    prompts = zip(recorded_prompts(trace, calls), replayed_prompts(events_of(trace, order).events), strict=True)
    for call, (here, there) in zip(calls, prompts, strict=True):
        reasons = list(_reasons(call, here, there, calls))
        if reasons:
            yield Unlike("call", call.call, "; ".join(reasons))


def _reasons(call: Call, here: Prompt, there: Prompt, calls: Sequence[Call]) -> Iterator[str]:
    if call.completion_tokens == 0:
        yield "its empty answer has one token there"
    if here.prompt_tokens != there.prompt_tokens:
        yield f"its prompt has {there.prompt_tokens} tokens there, {here.prompt_tokens} here"
    if here[1:] != there[1:]:
        yield f"it begins like {_shown(there, calls)} there, like {_shown(here, calls)} here"


def _shown(prompt: Prompt, calls: Sequence[Call]) -> str:
    return "no other" if prompt.of is None else f"{prompt.tokens} tokens of call {calls[prompt.of].call}"
