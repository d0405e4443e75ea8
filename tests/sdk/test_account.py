from __future__ import annotations

from functools import partial

from rotoscope.sdk import account


def test_only_what_there_is_some_of_is_told_in_one_line() -> None:
    numbers = {"tests that were lost": 0, "tests that have not ended": 2}
    before = dict(account._numbers)
    account._numbers.clear()
    try:
        for what in list(numbers):
            account.count_at_exit(what, partial(numbers.__getitem__, what))

        assert account.account() == "tests that have not ended: 2"
        numbers["tests that were lost"] = 1
        assert account.account() == "tests that were lost: 1; tests that have not ended: 2"
        numbers.update(dict.fromkeys(numbers, 0))
        assert account.account() == ""
    finally:
        account._numbers.clear()
        account._numbers.update(before)
