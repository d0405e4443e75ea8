"""The tasks that come with an agent: a file tasks.jsonl in its folder, one task a line, numbered from 1."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def load_tasks(folder: Path) -> list[dict[str, str]]:
    """Return the tasks of the agent in a folder, in order."""
    return [json.loads(line) for line in (folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]


def add_option(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Add `--task N`, whose value is the task of that number in the folder."""
    tasks = load_tasks(folder)

    def chosen(number: str) -> dict[str, str]:
        if not number.isdecimal() or not 1 <= int(number) <= len(tasks):
            raise argparse.ArgumentTypeError(f"{number!r} is not between 1 and {len(tasks)}")
        return tasks[int(number) - 1]

    parser.add_argument(
        "--task", type=chosen, default="1", metavar="N", help=f"which task, 1 to {len(tasks)} (default: %(default)s)"
    )
