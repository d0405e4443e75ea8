from __future__ import annotations

import io
import logging
import sys

import pytest

from rotoscope.proxy.screen import Screen, screen_of_stderr

ERASE = "\r\x1b[K"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_stand_above_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    screen = Screen(terminal)
    screen.write("first\n")
    screen.show("1 open")
    screen.show("1 open")
    screen.write("second\n")
    screen.show("")

    assert terminal.getvalue() == f"first\n{ERASE}1 open{ERASE}second\n1 open{ERASE}"


def test_status_that_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    terminal = Terminal()
    Screen(terminal).show("x" * 100)

    assert terminal.getvalue() == ERASE + "x" * 9


def test_without_a_terminal_there_is_no_status() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.show("1 open")
    screen.write("line\n")

    assert stream.getvalue() == "line\n"


def test_what_is_said_and_what_is_logged_goes_through_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.StreamHandler(terminal)
    logging.getLogger("rotoscope").addHandler(handler)
    try:
        with screen_of_stderr() as screen:
            screen.show("status")
            sys.stderr.write("said\n")
            logging.getLogger("rotoscope.proxy").warning("logged")
        assert handler.stream is terminal
        assert sys.stderr is terminal
    finally:
        logging.getLogger("rotoscope").removeHandler(handler)

    assert terminal.getvalue() == f"{ERASE}status{ERASE}said\nstatus{ERASE}logged\nstatus{ERASE}"
