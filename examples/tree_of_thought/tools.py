"""The tool: a program in Python, run in a process of its own with limits.

The model reads the docstring. As with any command of examples/react/shell.py this is no sandbox.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from examples.react.shell import run_shell
from examples.react.tools import clip
from rotoscope import trace_tool

TIME_LIMIT_S = 10
MEMORY_LIMIT_KIB = 1_000_000
OUTPUT_LIMIT = 2_000
"""Characters of what a program prints that the model sees; of more it sees the beginning and the end."""
COMMAND = f"""\
ulimit -v {MEMORY_LIMIT_KIB}
exec python -I - <program.py"""  # read from standard input, so that no traceback tells where the file is


@trace_tool
async def calculate(program: Annotated[str, "A whole program in Python that prints what you want to know."]) -> str:
    """Run a program in Python and return its exit status and what it printed, errors included.

    It runs in an empty folder, with the standard library only, for a few seconds at most and with little memory. There is
    no input. Nothing is kept from one program to the next, so it has to define all that it uses.
    """
    return await asyncio.to_thread(run_program, program)


def run_program(program: str, *, timeout_s: float = TIME_LIMIT_S) -> str:
    """Run a program; return how it ended and what it printed."""
    with TemporaryDirectory(prefix="calculate-", ignore_cleanup_errors=True) as folder:
        Path(folder, "program.py").write_text(program, encoding="utf-8")
        ending, output = run_shell(COMMAND, Path(folder), timeout_s=timeout_s)
    return clip(f"{ending}\n{output}".strip(), OUTPUT_LIMIT)
