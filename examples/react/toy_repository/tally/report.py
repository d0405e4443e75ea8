"""Tables of text: what was paid, who owes whom."""

from __future__ import annotations

from collections.abc import Sequence

from tally.journal import Expense, people
from tally.money import format_amount, percentage
from tally.settlement import balances, settle


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a header, the first column to the left and the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = [_line(header, widths), _line(["-" * width for width in widths], widths)]
    lines.extend(_line(row, widths) for row in rows)
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    parts = [first[0].ljust(first[1])]
    parts.extend(cell.rjust(width) for cell, width in others)
    return "  ".join(parts).rstrip()


def paid(expenses: Sequence[Expense]) -> str:
    """Return a table of what each person paid, and of the balance that comes from it."""
    everybody = people(expenses)
    balance = balances(expenses, everybody)
    whole = sum(expense.cents for expense in expenses)
    rows = []
    for name in everybody:
        cents = sum(expense.cents for expense in expenses if expense.payer == name)
        rows.append([name, format_amount(cents), percentage(cents, whole), format_amount(balance[name], plus=True)])
    return table(["who", "paid", "share", "balance"], rows)


def transfers(expenses: Sequence[Expense]) -> str:
    """Return one line for each transfer that settles the debts."""
    found = settle(balances(expenses, people(expenses)))
    if not found:
        return "nobody owes anything"
    return "\n".join(f"{t.giver} gives {t.taker} {format_amount(t.cents)}" for t in found)
