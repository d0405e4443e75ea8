"""Record a suite of tasks: a command for each, a run of its own for each, one campaign for all, behind one gateway."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.proxy.addresses import led_to_gateway
from rotoscope.proxy.child import Child, signals_taken
from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk
from rotoscope.proxy.standing import Standing, Stood, standing
from rotoscope.proxy.tasks import PLACE, Task, with_task
from rotoscope.recorder.numbered_files import claim
from rotoscope.recorder.recorded_run import Finished
from rotoscope.recorder.telling import about_in_one_line, say
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.phrases import counted

CANNOT_START = 126
"""The status of a task whose command could not be started, as shells have it."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What `rotoscope record --each` was asked for."""

    command: Sequence[str]
    """What is run for each task."""
    tasks: Sequence[Task]
    standing: Standing
    jobs: int = 1
    """How many tasks run at once."""


def record_each(options: SuiteOptions) -> int:
    """Record every task; return 0, 1 when one of them failed, or 128 + n when signal n stopped the suite.

    Raises UnusableInput when the folder cannot be written or the command cannot be started.
    """
    claim(options.standing.folder).give_up()
    return asyncio.run(_Suite(options).run())


@dataclass(slots=True)
class _Suite:
    options: SuiteOptions
    waiting: deque[Task] = field(init=False)
    running: set[Child] = field(default_factory=set)
    done: int = 0
    failed: list[int] = field(default_factory=list)
    unrecorded: list[int] = field(default_factory=list)
    """Lines of which no call came."""
    told: set[str] = field(default_factory=set)
    """Names of the runs that are told with their task."""
    has_started: bool = False
    stopped_by: signal.Signals | None = None
    cannot_start: UnusableInput | None = None

    def __post_init__(self) -> None:
        self.waiting = deque(self.options.tasks)

    async def run(self) -> int:
        how = self.options.standing
        limit = resource.getrlimit(resource.RLIMIT_CORE)
        with signals_taken(self._stop):
            async with standing(how, finished=self._finished) as stood:
                tasks = counted(len(self.options.tasks), "task")
                say(f"recording {tasks} in front of {how.upstream.origin} to {how.folder}")
                keep_prompts_off_the_disk()
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.options.jobs, len(self.waiting))):
                        group.create_task(self._work(stood, limit))
        if self.cannot_start is not None:
            raise self.cannot_start
        self._sum_up()
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return 1 if self.failed else 0

    async def _work(self, stood: Stood, limit: tuple[int, int]) -> None:
        """Do one task after another while there are any."""
        while self.waiting and self.stopped_by is None and self.cannot_start is None:
            task = self.waiting.popleft()
            try:
                status = await self._do(task, stood, limit)
            except UnusableInput as error:
                if not (self.has_started or self._is_owed_to_task(error)):
                    self.cannot_start = error
                    return
                say(str(error))
                status = CANNOT_START
            self.told.add(str(task.line))
            finished = await stood.runs.end(str(task.line))
            self.told.discard(str(task.line))
            self._tell(task, status, finished)

    def _is_owed_to_task(self, error: UnusableInput) -> bool:
        """Tell whether another task may start where this one cannot: it is too long, or names the command."""
        is_too_long = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.E2BIG
        return is_too_long or PLACE in self.options.command[0]

    async def _do(self, task: Task, stood: Stood, limit: tuple[int, int]) -> int:
        environment = led_to_gateway(
            os.environ, self.options.standing.upstream, f"{stood.gateway.origin}/run/{task.line}"
        )
        child = Child()
        self.running.add(child)
        try:
            await child.start(
                with_task(self.options.command, task),
                environment,
                name=self.options.command[0],  # without the task, which is told to nobody else
                stdin=asyncio.subprocess.DEVNULL,
                core_limit=limit,
            )
            self.has_started = True
            return await child.wait()
        finally:
            self.running.discard(child)

    def _finished(self, finished: Finished, name: str) -> None:
        """Tell of runs that are no task's: of late calls, or of names that an agent gave."""
        if name not in self.told and (finished.path or finished.trouble):
            say(f"besides: {about_in_one_line(finished)}")

    def _tell(self, task: Task, status: int, finished: Finished | None) -> None:
        self.done += 1
        if status:
            self.failed.append(task.line)
        if finished is None or finished.path is None:
            self.unrecorded.append(task.line)
        said = "nothing was recorded" if finished is None else about_in_one_line(finished)
        say(f"[{self.done} of {len(self.options.tasks)}] line {task.line}, exit status {status}: {said}")

    def _sum_up(self) -> None:
        parts = [f"{counted(self.done, 'task')} done"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed ({_lines(self.failed)})")
        if self.unrecorded:
            parts.append(f"NOTHING WAS RECORDED of {len(self.unrecorded)} ({_lines(self.unrecorded)})")
        if self.waiting:
            parts.append(f"{len(self.waiting)} not begun")
        say(", ".join(parts))

    def _stop(self, signum: signal.Signals) -> None:
        """Let a signal end the commands that run, and begin no other."""
        self.stopped_by = self.stopped_by or signum
        for child in self.running:
            child.forward(signum)


def _lines(numbers: Sequence[int]) -> str:
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(map(str, sorted(numbers)))}"
