"""The tasks of a suite: one a line of a file, put into the arguments of a command.

The text of a task is content: it reaches the command and nothing else.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rotoscope.traces.errors import UnusableInput

PLACE = "{}"
"""Where a task stands in the arguments of the command."""


@dataclass(frozen=True, slots=True)
class Task:
    """A line that is not empty."""

    line: int
    """Its number in the file, from 1."""
    text: str = field(repr=False)


def read_tasks(path: Path) -> list[Task]:
    """Read the tasks of a file, `-` for standard input. Raises UnusableInput."""
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UnusableInput(f"{path}: the tasks cannot be read: {error.strerror}") from error
    lines = content.removeprefix(codecs.BOM_UTF8).decode(errors="surrogateescape").split("\n")
    tasks = [Task(number, text) for number, line in enumerate(lines, 1) if (text := line.rstrip("\r")).strip()]
    if not tasks:
        raise UnusableInput(f"{path}: there is no task: put one on each line")
    if broken := next((task for task in tasks if "\0" in task.text), None):
        raise UnusableInput(f"{path}:{broken.line}: a task with a zero byte cannot be an argument")
    return tasks


def with_task(command: Sequence[str], task: Task) -> list[str]:
    """Return the command with a task in place of each `{}`, or as its last argument where there is none."""
    if not any(PLACE in argument for argument in command):
        return [*command, task.text]
    return [argument.replace(PLACE, task.text) for argument in command]
