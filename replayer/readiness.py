"""Which steps of a session may start, as others end and answers arrive, and what led to them; no clock, no task.

A step waits for steps to end and for calls to have delivered a number of tokens. Each is counted once; what ended has
delivered all it will. A session is over with its last answer: what leads to no call is never started.

A step is due when the last of what it waits for is over, whenever somebody notices; the path to it is the path to that.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from math import inf
from operator import attrgetter

from rotoscope.replayer.job_path import Path
from rotoscope.replayer.schedule import Schedule
from rotoscope.traces.errors import RunFailed


class Waits:
    """What the steps of a schedule wait for; does not change, so that all sessions of a trace share it."""

    def __init__(self, schedule: Schedule) -> None:
        self.steps = schedule.steps
        self.needed = _leading_to_calls(schedule)
        self.missing = array("l", [len(step.after) + len(step.delivered) for step in schedule.steps])
        """Of how many others each step waits for."""
        after: defaultdict[int, list[int]] = defaultdict(list)
        delivered: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for index, step in enumerate(schedule.steps):
            for earlier in step.after:
                after[earlier].append(index)
            for call, tokens in step.delivered:
                delivered[call].append((tokens, index))
        self.after = {step: tuple(followers) for step, followers in after.items()}
        """The steps that wait for a step."""
        self.joins = _joins_of_branches(schedule, self.needed)
        """The joins that wait for a step of a branch that ends with them."""
        self.delivered = {call: tuple(waiting) for call, waiting in delivered.items()}
        """How many tokens of a call which steps wait for."""


class Readiness:
    """Count down what each step of one session still waits for."""

    def __init__(self, waits: Waits, *, start_s: float = 0.0) -> None:
        """`start_s` is when the session is due."""
        self._waits = waits
        self._missing = array("l", waits.missing)
        self._start = Path(start_s)
        self._paths: dict[int, Path] = {}
        """To steps that have not started, as far as it is known; the longest."""
        self._delivered: dict[int, float] = {}
        """How many tokens of the calls that steps wait for have come; of one that has ended, as many as one likes."""

    def first(self) -> list[int]:
        """Return the steps that wait for nothing."""
        return [index for index in self._waits.needed if not self._missing[index]]

    def path_to(self, step: int) -> Path:
        """Return what led to a step that starts now, up to when it was due: when the last of what it waited for was over."""
        return self._paths.pop(step, self._start)

    def is_awaited(self, call: int) -> bool:
        """Whether a step waits for a part of this call's answer."""
        return any(needed > self._delivered.get(call, 0) for needed, _ in self._waits.delivered.get(call, ()))

    def awaited_tokens(self, call: int) -> tuple[int, ...]:
        """Return after how many tokens of this call's answer steps may start, rising."""
        return tuple(sorted({needed for needed, _ in self._waits.delivered.get(call, ())}))

    def delivered(self, call: int, tokens: float, *, path: Path) -> list[int]:
        """Take note that a call has delivered so many tokens, to which this led; return the steps that may start."""
        waiting = self._waits.delivered.get(call)
        if not waiting:
            return []
        before, self._delivered[call] = self._delivered.get(call, 0), tokens
        return self._less((index for needed, index in waiting if before < needed <= tokens), path)

    def ended(self, step: int, *, path: Path) -> list[int]:
        """Take note that a step has ended, to which this led; return the steps that may start."""
        ready = self._less(self._waits.after.get(step, ()), path)
        call = self._waits.steps[step].call
        if call is not None:
            ready += self.delivered(call, inf, path=path)
        return ready

    def check_all_ended(self) -> None:
        """Raise RunFailed if a step still waits though nothing is left to end."""
        stuck = [index for index in self._waits.needed if self._missing[index]]
        if stuck:
            raise RunFailed(f"the schedule cannot go on: step {stuck[0]} waits for what never ends")

    def _less(self, steps: Iterable[int], path: Path) -> list[int]:
        needed = [index for index in steps if index in self._waits.needed]
        for index in needed:
            self._missing[index] -= 1
            self._paths[index] = max(self._paths.get(index, path), path, key=attrgetter("until_s"))
        return [index for index in needed if not self._missing[index]]


def _joins_of_branches(schedule: Schedule, needed: Iterable[int]) -> dict[int, tuple[int, ...]]:
    steps = schedule.steps
    joins: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
    for index in needed:
        if steps[index].kind == "join":
            for earlier in steps[index].after:
                if steps[earlier].branch != steps[index].branch:
                    joins[earlier] += (index,)
    return dict(joins)


def _leading_to_calls(schedule: Schedule) -> dict[int, None]:
    """Return, as an ordered set, the steps that are calls and those that a call waits for."""
    needed = {index for index, step in enumerate(schedule.steps) if step.kind == "call"}
    for index in range(len(schedule.steps) - 1, -1, -1):
        if index in needed:
            needed.update(schedule.steps[index].after)
    return dict.fromkeys(sorted(needed))
