"""The same run as it would have been without lines that change by themselves, such as dates and billing headers."""

from __future__ import annotations

from dataclasses import replace

from rotoscope.traces.forest import normalise
from rotoscope.traces.model import Call, Trace


def is_volatile(trace: Trace) -> bool:
    """Return whether some prompt would share more with earlier ones without such lines."""
    return any(call.masked is not None for call in trace.calls())


def masked(trace: Trace) -> Trace:
    """Return a trace whose prefixes are those without such lines; lengths stay as they are."""
    events = tuple(
        replace(event, prefix=event.masked, masked=None)
        if isinstance(event, Call) and event.masked is not None
        else event
        for event in trace.events
    )
    return normalise(replace(trace, events=events, volatile="masked"))
