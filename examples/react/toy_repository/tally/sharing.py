"""An amount divided among people, to the cent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def split_evenly(cents: int, names: Sequence[str]) -> dict[str, int]:
    """Return what each person bears of an amount.

    The shares add up to the amount, and no two of them differ by more than one cent. Those named first bear the
    cents that are left over.
    """
    if not names:
        raise ValueError("an amount needs somebody to share it")
    return dict.fromkeys(names, cents // len(names))


def split_by_weight(cents: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Return what each person bears when some bear more than others.

    Shares are rounded down; the cents that are left go one by one to those whose share lost most by rounding, and
    where two lost the same, to the one named first.
    """
    whole = sum(weights.values())
    if whole <= 0 or min(weights.values()) < 0:
        raise ValueError("weights are at least zero, and not all of them are zero")
    shares = {name: cents * weight // whole for name, weight in weights.items()}
    lost = {name: cents * weight % whole for name, weight in weights.items()}
    order = sorted(weights, key=lambda name: -lost[name])
    for name in order[: cents - sum(shares.values())]:
        shares[name] += 1
    return shares
