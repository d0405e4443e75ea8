"""Balances, and the transfers that settle them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tally.journal import Expense
from tally.sharing import split_evenly


@dataclass(frozen=True)
class Transfer:
    """Money that one person gives another."""

    giver: str
    taker: str
    cents: int


def balances(expenses: Iterable[Expense], everybody: Sequence[str]) -> dict[str, int]:
    """Return what each person has paid less what they bear, in cents.

    Somebody with a positive balance gets money back. The balances of all add up to zero.
    """
    result = dict.fromkeys(everybody, 0)
    for expense in expenses:
        result[expense.payer] += expense.cents
        for name, share in split_evenly(expense.cents, expense.sharers or everybody).items():
            result[name] -= share
    return result


def settle(balance: Mapping[str, int]) -> list[Transfer]:
    """Return transfers after which every balance is zero: at most one fewer than there are people.

    The one who owes most pays the one who is owed most, until nobody owes anything. Ties go by name.
    """
    if sum(balance.values()) != 0:
        raise ValueError(f"balances must add up to zero, these add up to {sum(balance.values())} cents")
    open_balance = dict(balance)
    transfers = []
    while any(open_balance.values()):
        giver = min(sorted(open_balance), key=lambda name: open_balance[name])
        taker = max(sorted(open_balance), key=lambda name: open_balance[name])
        cents = min(-open_balance[giver], open_balance[taker])
        open_balance[giver] += cents
        open_balance[taker] -= cents
        transfers.append(Transfer(giver, taker, cents))
    return transfers
