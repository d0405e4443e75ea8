"""Claim: the planned optimum of 2,000 calls of 200,000 tokens takes less than 0.1 s, because it is O(calls).

Prints the median CPU seconds of several rounds, beside the same for prompts a hundred times shorter: the ratio shows that the
tokens do not matter. Exits 1 when the claim does not hold.
"""

from __future__ import annotations

import statistics
import sys
import time

from rotoscope.traces import Call, Prefix, Trace
from rotoscope.traces.analysis.optimum import Assumptions, planned_hits
from rotoscope.traces.analysis.profiles import PROFILES

CALLS = 2_000
TOKENS = 200_000
ROUNDS = 7
LIMIT_S = 0.1


def conversation(calls: int, tokens: int) -> Trace:
    """Return a conversation of prompts of `tokens` on average, each the last one's stream and some more."""
    events = []
    growth = tokens // calls
    output = growth // 5
    prompt = tokens - growth * calls // 2
    for number in range(calls):
        prefix = Prefix(number - 1, prompt, "usage") if number else Prefix(None, 0, "usage")
        prompt += growth - output
        events.append(
            Call(
                call=number,
                conversation_id=0,
                message_index=number,
                prompt_tokens=prompt,
                completion_tokens=output,
                prefix=prefix,
            )
        )
        prompt += output
    return Trace(trace_id="00000000", campaign="11111111", token_source="usage", events=tuple(events))


def median_cpu_s(trace: Trace) -> float:
    """Return the median CPU seconds of the optimum over the rounds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        planned_hits(trace, Assumptions(profile=PROFILES["vllm"]))
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> int:
    """Measure, print, and return the exit code."""
    long = median_cpu_s(conversation(CALLS, TOKENS))
    short = median_cpu_s(conversation(CALLS, TOKENS // 100))
    print(f"planned optimum of {CALLS:,} calls of about {TOKENS:,} tokens: {long:.4f} s CPU (limit {LIMIT_S} s)")
    print(f"the same for prompts a hundred times shorter: {short:.4f} s CPU, ratio {long / short:.2f}")
    return 0 if long < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
