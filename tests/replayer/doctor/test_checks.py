from __future__ import annotations

import pytest

from rotoscope.replayer.doctor.checks import Check, Diagnosis, fail, none, ok, warn


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ([], 0),
        ([ok("a", "x"), none("b", "x")], 0),
        ([warn("a", "x", "y")], 0),
        ([fail("a", "x", "y"), ok("b", "x")], 3),
    ],
)
def test_only_what_makes_results_wrong_is_3(checks: list[Check], code: int) -> None:
    assert Diagnosis(checks, "c").exit_code == code


def test_json_has_every_check_and_the_command() -> None:
    diagnosis = Diagnosis([fail("a", "seen", "do")], "rotoscope replay")

    assert diagnosis.as_dict() == {
        "valid": False,
        "checks": [{"name": "a", "verdict": "fail", "seen": "seen", "advice": "do"}],
        "command": "rotoscope replay",
    }
