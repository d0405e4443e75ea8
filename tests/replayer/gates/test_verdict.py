from __future__ import annotations

from rotoscope.replayer.gates.gate import Gate, Validity, unchecked
from rotoscope.replayer.gates.verdict import invalid_lines, validity_row

PASSED = Gate(name="errors", passed=True)
FAILED = Gate(name="lag", passed=False, says="the client is late")
UNCHECKED = unchecked("counters", "there are none")


def test_a_run_that_is_not_valid_says_so_first_and_why() -> None:
    assert list(invalid_lines(Validity.of([PASSED, FAILED]))) == [
        "INVALID: 1 of 2 gates failed",
        "  lag: the client is late",
    ]


def test_nothing_is_said_of_a_valid_run() -> None:
    assert list(invalid_lines(Validity.of([PASSED, UNCHECKED]))) == []
    assert list(invalid_lines(None)) == []


def test_a_row_tells_what_was_not_checked() -> None:
    row = validity_row(Validity.of([PASSED, UNCHECKED]))

    assert row == ("validity", "valid", "1 of 2 gates passed; not checked: counters")
    assert validity_row(Validity.of([PASSED, FAILED])) == ("validity", "INVALID", "1 of 2 gates passed")
