import asyncio

import pytest

from examples.tree_of_thought.tools import OUTPUT_LIMIT, calculate, run_program


def test_it_returns_what_the_program_prints() -> None:
    assert asyncio.run(calculate("print(6 * 7)")) == "exit status 0\n42"


def test_an_error_is_told_without_the_place_of_the_file() -> None:
    output = run_program("x = 1\nprint(y)")

    assert output.startswith("exit status 1\n")
    assert "NameError: name 'y' is not defined" in output
    assert "/" not in output


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import time; time.sleep(60)", "stopped after 0.3 seconds"),
        ("x = bytearray(4 * 1024**3)", "MemoryError"),
        ("", "exit status 0"),
    ],
)
def test_it_has_limits(program: str, told: str) -> None:
    assert told in run_program(program, timeout_s=0.3)


def test_a_long_output_loses_its_middle() -> None:
    assert len(run_program("print('a' * 100_000)")) < OUTPUT_LIMIT + 50
