"""Tests of tables on stdout."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from rotoscope.tables import fitted, free_width, parts_that_fit, print_columns, print_table, table_lines

PRINT = (
    "import sys\n"
    "from rotoscope.tables import print_table\n"
    "print_table(('what', 'n'), [('one', '1'), ('x' * 90, '23')], right=(1,))\n"
    "print('rich' in sys.modules)\n"
)
FREE = (
    "from rotoscope.tables import free_width; print('free', free_width(('what', 'n'), [('one', '1'), ('three', '23')]))"
)


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_flush_right() -> None:
    lines = list(table_lines(("what", "n"), [("one", "1"), ("three", "23")], right={1}))

    assert lines == ["what    n", "one     1", "three  23"]


def test_no_line_ends_in_spaces() -> None:
    assert list(table_lines(("a", "b"), [("long", ""), ("x", "y")])) == ["a     b", "long", "x     y"]


def test_a_row_may_end_early() -> None:
    assert list(table_lines(("a", "b"), [("x",)])) == ["a  b", "x"]


def test_a_table_without_rows_is_its_headings() -> None:
    assert list(table_lines(("a", "b"), [])) == ["a  b"]


@pytest.mark.parametrize(
    ("width", "parts"),
    [
        (None, [[0, 1, 2, 3]]),
        (17, [[0, 1, 2, 3]]),
        (16, [[0, 1, 2], [0, 3]]),
        (10, [[0, 1], [0, 2], [0, 3]]),
        (1, [[0, 1], [0, 2], [0, 3]]),
    ],
)
def test_columns_that_do_not_fit_stand_in_parts_with_the_names_before_each(
    width: int | None, parts: list[list[int]]
) -> None:
    assert parts_that_fit(("", "one", "two", "x"), [("name", "1", "2", "3")], width) == parts


def test_a_table_without_groups_has_its_names() -> None:
    assert parts_that_fit(("",), [("name",)], 10) == [[0]]


def test_a_pipe_gets_all_columns_side_by_side_and_text_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("", "a" * 90, "b" * 90), [("n", "1", "2")])

    assert len(capsys.readouterr().out.splitlines()) == 2
    assert fitted("word " * 100) == "word " * 100


def test_a_pipe_gets_whole_lines_without_loading_rich() -> None:
    done = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [f"{'what':<90}   n", f"{'one':<90}   1", f"{'x' * 90}  23", "False"]


def test_a_terminal_gets_a_table_that_fits_it() -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "40", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", f"{PRINT}{FREE}"], stdout=follower, env=environment) as process:
        os.close(follower)
        shown = _read_all(leader)
    assert process.returncode == 0
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()) <= 40
    assert shown.count("x") == 90
    assert "free 29" in shown


def test_nothing_is_said_of_free_width_where_stdout_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert free_width(("what", "n"), [("one", "1")]) is None


def test_print_table_prints_what_table_lines_yields(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("x", "1")], right=(1,))

    assert capsys.readouterr().out == "a  b\nx  1\n"


def _read_all(descriptor: int) -> str:
    pieces = []
    with open(descriptor, "rb", buffering=0) as leader:
        try:
            while piece := leader.read(4096):
                pieces.append(piece)
        except OSError:  # the other side has closed: that is how a terminal ends on Linux
            pass
    return b"".join(pieces).decode()
