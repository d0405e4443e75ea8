"""Commands that are run in this process as they would be typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pytest

from rotoscope.cli import main


class Ended(NamedTuple):
    """What is left of a command."""

    code: object
    out: str
    err: str


Run: TypeAlias = Callable[..., Ended]
"""Runs a command with further arguments."""


def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *command: str) -> Run:
    """Return a function that runs this command of `rotoscope`."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr("sys.argv", ["rotoscope", *command, *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return Ended(left.value.code, *capsys.readouterr())

    return run
