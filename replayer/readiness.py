"""Which steps of a session may start, as others end and answers arrive; no clock, no task.

A step waits for steps to end and for calls to have delivered a number of tokens. Each is counted once; what ended has
delivered all it will. A session is over with its last answer: what leads to no call is never started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rotoscope.replayer.schedule import Schedule
from rotoscope.traces.errors import RunFailed


class Readiness:
    """Count down what each step of a schedule still waits for."""

    def __init__(self, schedule: Schedule) -> None:
        self._steps = schedule.steps
        self._needed = _leading_to_calls(schedule)
        self._missing = [len(step.after) + len(step.delivered) for step in schedule.steps]
        self._after: dict[int, list[int]] = defaultdict(list)
        self._delivered: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for index, step in enumerate(schedule.steps):
            for earlier in step.after:
                self._after[earlier].append(index)
            for call, tokens in step.delivered:
                self._delivered[call].append((tokens, index))

    def first(self) -> list[int]:
        """Return the steps that wait for nothing."""
        return [index for index in self._needed if not self._missing[index]]

    def is_awaited(self, call: int) -> bool:
        """Whether a step waits for a part of this call's answer."""
        return bool(self._delivered.get(call))

    def delivered(self, call: int, tokens: int) -> list[int]:
        """Take note that a call has delivered so many tokens; return the steps that may start."""
        waiting = self._delivered.get(call)
        if not waiting:
            return []
        self._delivered[call] = [(needed, index) for needed, index in waiting if needed > tokens]
        return self._less(index for needed, index in waiting if needed <= tokens)

    def ended(self, step: int) -> list[int]:
        """Take note that a step has ended; return the steps that may start."""
        ready = self._less(self._after.pop(step, ()))
        call = self._steps[step].call
        if call is not None:
            ready += self._less(index for _, index in self._delivered.pop(call, ()))
        return ready

    def check_all_ended(self) -> None:
        """Raise RunFailed if a step still waits though nothing is left to end."""
        stuck = [index for index in self._needed if self._missing[index]]
        if stuck:
            raise RunFailed(f"the schedule cannot go on: step {stuck[0]} waits for what never ends")

    def _less(self, steps: Iterable[int]) -> list[int]:
        ready = []
        for index in steps:
            self._missing[index] -= 1
            if not self._missing[index] and index in self._needed:
                ready.append(index)
        return ready


def _leading_to_calls(schedule: Schedule) -> dict[int, None]:
    """Return, as an ordered set, the steps that are calls and those that a call waits for."""
    needed = {index for index, step in enumerate(schedule.steps) if step.kind == "call"}
    for index in range(len(schedule.steps) - 1, -1, -1):
        if index in needed:
            needed.update(schedule.steps[index].after)
    return dict.fromkeys(sorted(needed))
