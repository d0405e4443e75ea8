"""Amounts of money, kept as whole cents so that sums are exact."""

from __future__ import annotations

import re

AMOUNT = re.compile(r"^-?\d+(\.\d{1,2})?$")


class AmountError(ValueError):
    """Say that a text is not an amount of money."""


def parse_amount(text: str) -> int:
    """Return the cents of an amount like `12`, `12.5`, `12.50` or `-3.20`.

    A comma between thousands is allowed (`1,250.00`), a currency sign is not.
    """
    plain = text.strip().replace(",", "")
    if not AMOUNT.match(plain):
        raise AmountError(f"not an amount of money: {text!r}")
    whole, _, fraction = plain.partition(".")
    cents = int(fraction.ljust(2, "0")) if fraction else 0
    return int(whole) * 100 + cents


def format_amount(cents: int, *, plus: bool = False) -> str:
    """Return cents as an amount with two decimals and commas between thousands.

    With `plus`, positive amounts carry their sign too; zero never has one.
    """
    sign = "-" if cents < 0 else "+" if plus and cents > 0 else ""
    whole, fraction = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{fraction:02d}"


def total(amounts: list[str]) -> int:
    """Return the sum of amounts given as text, in cents."""
    return sum(parse_amount(amount) for amount in amounts)


def percentage(part: int, whole: int) -> str:
    """Return how much of `whole` is `part`, in per cent with one decimal; `-` where there is no whole."""
    if whole == 0:
        return "-"
    return f"{100 * part / whole:.1f}%"
