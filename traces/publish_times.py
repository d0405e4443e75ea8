"""Let the times of a trace begin at zero and round them, so that nothing that came first comes later.

Beginnings and ends are rounded, not durations: of two events the one that ended before the other began still does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from rotoscope.traces.model import Trace, TraceEvent


def rebased(trace: Trace, step_ms: int) -> Trace:
    """Return the trace with times in multiples of `step_ms` since its earliest one."""
    known = [time_ms for event in trace.events if (time_ms := getattr(event, "at_ms", None)) is not None]
    start_ms = min(known, default=0.0)
    return replace(trace, events=tuple(_event(event, start_ms, step_ms) for event in trace.events))


def rounded_ms(time_ms: float, step_ms: int) -> float:
    """Return the nearest multiple, of two that are equally near the greater one."""
    return float(step_ms * math.floor(time_ms / step_ms + 0.5))


def _event(event: TraceEvent, start_ms: float, step_ms: int) -> TraceEvent:
    at_ms = getattr(event, "at_ms", None)
    begin_ms = 0.0 if at_ms is None else at_ms - start_ms
    times: dict[str, Any] = {} if at_ms is None else {"at_ms": rounded_ms(begin_ms, step_ms)}
    for name in ("ttft_ms", "duration_ms"):
        length_ms = getattr(event, name, None)
        if length_ms is not None:
            times[name] = rounded_ms(begin_ms + length_ms, step_ms) - rounded_ms(begin_ms, step_ms)
    return replace(event, **times) if times else event
