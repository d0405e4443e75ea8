"""When the calls of a trace start in a replay that takes as long as it took to record it."""

from __future__ import annotations

from typing import Any

from rotoscope.replayer.schedule import plan_session
from rotoscope.traces import Trace


def starts_ms(trace: Trace) -> dict[int, float]:
    """Return when each call starts in a replay whose calls take as long as they did."""
    calls = {call.call: call for call in trace.calls()}
    begins: dict[Any, float] = {}
    ends: list[float] = []
    for step in plan_session(trace).steps:
        waits = [*(ends[earlier] for earlier in step.after), *(begins[call] for call, _ in step.delivered)]
        begin = max(waits, default=0.0)
        if step.call is None:
            ends.append(begin + step.seconds * 1000)
        else:
            begins[step.call] = begin
            ends.append(begin + (calls[step.call].duration_ms or 0.0))
    return begins
