from __future__ import annotations

import pytest

from rotoscope.replayer.gates.gate import GATES, Gate, Validity, at_least, at_most, gates_named, unchecked
from rotoscope.traces.errors import UnusableInput


def test_a_limit_itself_passes() -> None:
    assert at_most("lag", 0.02, 0.02, "late").passed
    assert at_least("jobs", 10.0, 10.0, "few").passed


def test_what_is_beyond_a_limit_fails_and_says_why() -> None:
    late, few = at_most("lag", 0.021, 0.02, "late"), at_least("jobs", 9.9, 10.0, "few")

    assert (late.passed, late.measured, late.limit, late.says) == (False, 0.021, 0.02, "late")
    assert (few.passed, few.measured, few.limit, few.says) == (False, 9.9, 10.0, "few")


def test_a_gate_that_passed_has_nothing_to_say() -> None:
    assert at_most("lag", 0.0, 0.02, "late").says is None


def test_a_run_is_valid_unless_a_gate_failed() -> None:
    passed, failed = Gate(name="jobs", passed=True), Gate(name="lag", passed=False)
    nothing = unchecked("counters", "there are none")

    assert Validity.of([passed, nothing]) == Validity(True, (passed, nothing))
    assert not Validity.of([passed, failed, nothing]).valid
    assert Validity.of([passed, failed, nothing]).failed == (failed,)
    assert Validity.of([passed, failed, nothing]).unchecked == (nothing,)


def test_gates_are_named_in_their_order_and_once() -> None:
    assert gates_named(["lag", "output-lengths", "lag"]) == ("output-lengths", "lag")


def test_an_unknown_gate_is_refused_with_the_list() -> None:
    with pytest.raises(UnusableInput, match=f"no gate 'speed': choose of {', '.join(GATES)}"):
        gates_named(["lag", "speed"])
