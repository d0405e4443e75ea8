"""What a reader of audited files could learn: how much their numbers tell apart, which no schema can forbid.

Structure, sizes and times are what a trace is for. How many of them are one of a kind says how well a trace can be told
from others, and matched with a task, a product or a file that somebody knows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rotoscope.traces.model import Call, Message, ToolCall, Trace
from rotoscope.traces.phrases import counted

TIMES = ("at_ms", "ttft_ms", "duration_ms")
"""The fields of events that are times."""
MOST_SHOWN = 8
"""Sizes that are listed; of more only the number is told."""


@dataclass(slots=True)
class Census:
    """Counts over all traces of an audit."""

    traces: int = 0
    journals: int = 0
    journals_of_named_campaigns: int = 0
    """Who has the key of such a campaign, which is in a file until it is ended, can test guesses of what was said."""
    results: int = 0
    campaigns: set[str] = field(default_factory=set)
    prompt_tokens: Counter[int] = field(default_factory=Counter)
    output_tokens: Counter[int] = field(default_factory=Counter)
    system_tokens: Counter[int] = field(default_factory=Counter)
    tool_result_tokens: Counter[int] = field(default_factory=Counter)
    tools: set[tuple[str, str]] = field(default_factory=set)
    """By campaign and pseudonym."""
    times: int = 0
    fine_times: int = 0
    """Times that are no whole milliseconds."""
    span_ms: float = 0.0

    def add_trace(self, trace: Trace) -> None:
        """Count the numbers of a trace."""
        self.traces += 1
        self.campaigns.add(trace.campaign)
        self.system_tokens.update(one.tokens for one in trace.shared_prefixes if one.kind == "system")
        for event in trace.events:
            match event:
                case Call():
                    self.prompt_tokens[event.prompt_tokens] += 1
                    self.output_tokens[event.completion_tokens] += 1
                case Message(role="tool"):
                    self.tool_result_tokens[event.tokens] += 1
                case ToolCall():
                    self.tools.add((trace.campaign, event.tool_name))
            times = [time for name in TIMES if (time := getattr(event, name, None)) is not None]
            self.times += len(times)
            self.fine_times += sum(time != round(time) for time in times)
            self.span_ms = max(self.span_ms, getattr(event, "at_ms", None) or 0.0)

    def lines(self) -> Iterator[str]:
        """Yield what there is to know, a line each; nothing where there are no recordings."""
        if self.journals:
            named = f", {self.journals_of_named_campaigns} of named campaigns: end those first"
            yield f"journals {self.journals}{named if self.journals_of_named_campaigns else ''}"
        if not self.traces:
            return
        calls = self.prompt_tokens.total()
        yield f"traces {self.traces}, campaigns {len(self.campaigns)}, calls {calls}, tools {len(self.tools)}"
        yield f"prompt lengths: {_told(self.prompt_tokens, 'calls')}"
        yield f"output lengths: {_told(self.output_tokens, 'calls')}"
        yield f"tool results: {_told(self.tool_result_tokens, 'messages')}"
        yield f"system prompts: {_sizes(self.system_tokens)}"
        yield f"lengths are multiples of {self.length_step()}, times of {self.time_step()}"
        yield f"times: {self.times}, up to {self.span_ms / 1000:,.1f} s from the start"

    def length_step(self) -> int:
        """Return the greatest number that all prompt and output lengths are multiples of, 1 where there are none."""
        return math.gcd(*self.prompt_tokens, *self.output_tokens) or 1

    def time_step(self) -> str:
        """Say how fine times are; what is finer than a millisecond could carry anything in its digits."""
        if self.fine_times:
            return (
                f"less than 1 ms: {self.fine_times} of {self.times} have digits behind the point, publish rounds them"
            )
        return "1 ms or more"

    def as_dict(self) -> dict[str, object]:
        """Return the numbers for programs."""
        return {
            "traces": self.traces,
            "journals": self.journals,
            "journals_of_named_campaigns": self.journals_of_named_campaigns,
            "results": self.results,
            "campaigns": len(self.campaigns),
            "calls": self.prompt_tokens.total(),
            "tools": len(self.tools),
            "prompt_lengths": len(self.prompt_tokens),
            "calls_with_a_prompt_length_of_their_own": _alone(self.prompt_tokens),
            "prompt_length_bits": round(entropy_bits(self.prompt_tokens), 3),
            "output_lengths": len(self.output_tokens),
            "output_length_bits": round(entropy_bits(self.output_tokens), 3),
            "tool_result_lengths": len(self.tool_result_tokens),
            "system_prompt_lengths": sorted(self.system_tokens),
            "length_step": self.length_step(),
            "times": self.times,
            "times_finer_than_1_ms": self.fine_times,
            "longest_span_ms": self.span_ms,
        }


def entropy_bits(counts: Counter[int]) -> float:
    """Return the Shannon entropy of a distribution in bits: how much one of its values tells on average."""
    total = counts.total()
    return sum(count / total * math.log2(total / count) for count in counts.values())


def _alone(counts: Counter[int]) -> int:
    return sum(count == 1 for count in counts.values())


def _told(counts: Counter[int], unit: str) -> str:
    total, alone = counts.total(), _alone(counts)
    return f"{len(counts)} different, {entropy_bits(counts):.1f} bits; {alone} of {total} {unit} have one of their own"


def _sizes(counts: Counter[int]) -> str:
    sizes: Sequence[int] = sorted(counts)
    shown = ", ".join(f"{size:,}" for size in sizes[:MOST_SHOWN])
    more = f" and {len(sizes) - MOST_SHOWN} more" if len(sizes) > MOST_SHOWN else ""
    return f"{counted(len(sizes), 'size')}{': ' if sizes else ''}{shown}{more}{' tokens' if sizes else ''}"
