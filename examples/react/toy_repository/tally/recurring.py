"""Expenses that come back every month, every few months, or every few weeks."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta

from tally.journal import Expense


@dataclass(frozen=True)
class Recurrence:
    """How often an expense comes back. Exactly one of the two is set."""

    months: int = 0
    weeks: int = 0

    def __post_init__(self) -> None:
        if (self.months > 0) == (self.weeks > 0):
            raise ValueError("a recurrence needs either months or weeks, at least one of them")


def add_months(day: date, months: int) -> date:
    """Return the day so many months later.

    A month without that day gives its last one: January 31st and one month is February 28th, or 29th in a leap year.
    """
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def occurrences(first: date, recurrence: Recurrence, *, until: date) -> Iterator[date]:
    """Yield the days of a recurrence from its first one up to and including `until`.

    An expense of the 31st stays one of the last day of each month.
    """
    day = first
    while day <= until:
        yield day
        day = add_months(day, recurrence.months) if recurrence.months else day + timedelta(weeks=recurrence.weeks)


def repeat(expense: Expense, recurrence: Recurrence, *, until: date) -> list[Expense]:
    """Return the expense once for every day on which it falls due."""
    return [replace(expense, day=day) for day in occurrences(expense.day, recurrence, until=until)]


def next_due(first: date, recurrence: Recurrence, *, after: date) -> date:
    """Return the first day of a recurrence that is later than `after`."""
    far = add_months(max(first, after), 12 * (recurrence.months or 1) + recurrence.weeks)
    return next(day for day in occurrences(first, recurrence, until=far) if day > after)
