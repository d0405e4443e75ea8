from __future__ import annotations

import pytest
from chat_wire import system, tool, user

from rotoscope.recorder.canonical import message_part, tools_part
from rotoscope.recorder.volatile import blanked


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "x-anthropic-billing-header: cc_version=2.1; cch=a1b2;\nYou are",
            "x-anthropic-billing-header: cc_version=2.1; cch=ff00;\nYou are",
        ),
        ("Today is 2026-11-30.", "Today is 2026-12-01."),
        ("At 2026-11-30T10:20:30Z", "At 2026-11-30T10:20:31.5+01:00"),
        ("Now: Mon, Nov 30, 2026 09:15", "Now: Tue, Dec 1, 2026 10:05"),
        ("Now: 30 November 2026 9:15 PM", "Now: 1 December 2026 9:16 AM"),
        ("30.11.2026", "1.12.2026"),
    ],
)
def test_messages_of_the_system_that_differ_in_such_lines_are_alike_without_them(one: str, other: str) -> None:
    assert blanked(message_part(system(one))) is not None
    assert blanked(message_part(system(one))) == blanked(message_part(system(other)))


@pytest.mark.parametrize(
    "text", ["You are version 2.1.197 of 14 tools.", "Nov 30 tools", "In 2026 all is well", "1/2 of it"]
)
def test_other_numbers_stay(text: str) -> None:
    assert blanked(message_part(system(text))) is None


def test_of_the_users_messages_only_lines_that_tell_the_date_are_blanked() -> None:
    days = ("2026-11-30", "Tuesday", "Tue, Dec 1, 2026")
    forms = {blanked(message_part(user(f"# env\nToday's date is {day}.\nGo on."))) for day in days}

    assert len(forms) == 1
    assert None not in forms
    assert blanked(message_part(user("what happened on 2026-11-30?"))) is None


def test_what_else_such_a_line_says_stays() -> None:
    assert blanked(message_part(user("Today is a good day to cook for 8 people"))) is None
    assert blanked(message_part(user("the current time of 2026-11-30 is known"))) != blanked(
        message_part(user("the current time of 2026-11-30 is not"))
    )


def test_tools_are_left_as_they_are() -> None:
    assert blanked(tools_part([tool("at_2026-11-30")], {})) is None
