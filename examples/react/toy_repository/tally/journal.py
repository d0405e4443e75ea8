"""A journal's lines as expenses.

A line reads: date, payer, amount, description in quotation marks, and optionally the people who share it, joined by
commas. Blank lines and comments are skipped. A journal with a line that cannot be read is refused, with its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from tally.money import AmountError, parse_amount

LINE = re.compile(
    r"""
    (?P<date>\d{4}-\d{2}-\d{2}) \s+
    (?P<payer>\w+) \s+
    (?P<amount>-?[\d.,]+) \s+
    "(?P<description>[^"]*)"
    (\s+ (?P<sharers>\w+(,\w+)*))?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Expense:
    """What somebody paid, for whom. No sharers means everybody."""

    day: date
    payer: str
    cents: int
    description: str
    sharers: tuple[str, ...] = ()


class JournalError(ValueError):
    """Say which line of a journal cannot be read."""

    def __init__(self, number: int, line: str, reason: str) -> None:
        super().__init__(f"line {number}: {reason}: {line!r}")
        self.number = number


def read_journal(lines: Iterable[str]) -> list[Expense]:
    """Return the expenses of a journal, oldest first; expenses of one day keep their order."""
    expenses = []
    for number, line in enumerate(lines, start=1):
        text = strip_comment(line).strip()
        if text:
            expenses.append(read_line(number, text))
    return sorted(expenses, key=lambda expense: expense.day)


def strip_comment(line: str) -> str:
    """Return the line without its comment."""
    return line.partition("#")[0]


def read_line(number: int, text: str) -> Expense:
    """Return the expense of one line."""
    match = LINE.fullmatch(text)
    if match is None:
        raise JournalError(number, text, "expected date, payer, amount and a description in quotation marks")
    try:
        day = date.fromisoformat(match["date"])
        cents = parse_amount(match["amount"])
    except AmountError as error:
        raise JournalError(number, text, str(error)) from error
    except ValueError as error:
        raise JournalError(number, text, "no such day") from error
    sharers = tuple(match["sharers"].split(",")) if match["sharers"] else ()
    return Expense(day, match["payer"], cents, match["description"], sharers)


def people(expenses: Iterable[Expense]) -> list[str]:
    """Return everybody who paid or shared anything, in alphabetical order."""
    names: set[str] = set()
    for expense in expenses:
        names.add(expense.payer)
        names.update(expense.sharers)
    return sorted(names)
