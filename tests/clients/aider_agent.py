"""aider: its command line once, then its coder for several turns, with a file in the chat; a retry; it has no tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import errand
from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model

FILE = Path("towns.py")
QUIET = [
    "--no-git",
    "--yes-always",
    "--no-check-update",
    "--analytics-disable",
    "--no-show-model-warnings",
    "--no-pretty",
    "--no-detect-urls",
]


def command_line() -> None:
    """Ask one question as a user would type it."""
    command = [sys.executable, "-m", "aider", *QUIET, "--model", f"openai/{errand.MODEL}"]
    command += ["--edit-format", "ask", "--openai-api-key", errand.KEY, "--message", errand.QUESTION, str(FILE)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def coder(*, stream: bool) -> Coder:
    model = Model(f"openai/{errand.MODEL}")
    model.extra_params = {"extra_headers": errand.HEADERS, "api_key": errand.KEY}
    return Coder.create(
        main_model=model,
        edit_format="ask",
        io=InputOutput(yes=True, pretty=False),
        fnames=[str(FILE)],
        use_git=False,
        stream=stream,
        suggest_shell_commands=False,
    )


def main() -> None:
    FILE.write_text(f"TOWNS = ['Ghent', 'Antwerp']  # {errand.IN_RESULT}\n")
    command_line()
    one = coder(stream=True)
    one.run(errand.QUESTION)
    one.run("And what of tomorrow?")
    FILE.write_text(FILE.read_text() + "RIVERS = ['Leie', 'Scheldt']\n")
    one.run(f"I have added the rivers of {errand.IN_SYSTEM}. What do you think?")
    two = coder(stream=False)
    two.run(errand.REFUSED_QUESTION)


main()
