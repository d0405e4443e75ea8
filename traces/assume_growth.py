"""Assume that a prompt which grew holds the whole answer before it, where a format of blocks cannot say (R6).

A format that knows prompts by blocks says nothing about outputs: of a prompt that goes on where the one before it ended,
only the blocks of that one are known to be shared. Agents send the answer back, so the next prompt very likely begins
with the whole stream. That is assumed for a call whose branch predecessor's

1. whole blocks are all there, and are all that the prompt shares with any stream,
2. prompt and output together are no longer than the prompt,
3. output holds no reasoning and, by the recorded times, had ended when the call was sent.

The prefix is then P + O of the predecessor, marked `assumed`, with the blocks as its least value. It need be no multiple
of the trace's granularity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rotoscope.traces.forest import Forest, normalise
from rotoscope.traces.formats.recognise import LabelledTrace
from rotoscope.traces.model import Branch, Call, Prefix, Trace, TraceEvent


def assume_growth(trace: Trace) -> tuple[Trace, int]:
    """Return the trace with growth assumed where it may be, and for how many calls it was.

    A trace whose outputs are known is returned as it is.
    """
    if trace.outputs != "unknown":
        return trace, 0
    forest = Forest.of_trace(trace)
    last: dict[Branch | None, Call] = {}
    events: list[TraceEvent] = []
    assumed = 0
    for event in trace.events:
        if isinstance(event, Call):
            before = last.get(event.branch)
            last[event.branch] = event
            if before is not None and _may_have_grown(before, event, forest, trace.prefix_granularity):
                prefix = Prefix(before.call, before.stream_tokens, "assumed", low=event.prefix.least)
                event = replace(event, prefix=prefix)
                assumed += 1
        events.append(event)
    if not assumed:
        return trace, 0
    return normalise(replace(trace, events=tuple(events), outputs="assumed")), assumed


def assume_growth_of(traces: Iterable[LabelledTrace]) -> tuple[list[LabelledTrace], str]:
    """Return traces with growth assumed, and a line for people that says for how many calls it was."""
    grown, assumed = [], 0
    for one in traces:
        trace, calls = assume_growth(one.trace)
        grown.append(replace(one, member=replace(one.member, trace=trace)))
        assumed += calls
    return grown, f"assumed for {assumed} of {_calls(grown)} calls: they begin with all of the prompt and answer before"


def _calls(traces: Sequence[LabelledTrace]) -> int:
    return sum(isinstance(event, Call) for one in traces for event in one.trace.events)


def _may_have_grown(before: Call, call: Call, forest: Forest, granularity: int) -> bool:
    blocks = before.prompt_tokens // granularity * granularity
    return (
        before.call < call.call
        and before.domain == call.domain
        and 0 < blocks == call.prefix.tokens <= forest.common_prefix(before.call, call.call)
        and blocks < before.stream_tokens <= call.prompt_tokens
        and not before.reasoning_tokens
        and not before.reasoning_unsized
        and not _is_sent_before_end(call, before)
    )


def _is_sent_before_end(call: Call, before: Call) -> bool:
    if call.at_ms is None or before.at_ms is None or before.duration_ms is None:
        return False
    return call.at_ms < before.at_ms + before.duration_ms
