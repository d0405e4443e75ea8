"""Words around numbers in what is told to people."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun in the right form, which is `plural` or ends in s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
