"""Random numbers of a load's plan: the same on every machine, for each purpose of a seed others."""

from __future__ import annotations

import random


def generator(seed: int, purpose: str) -> random.Random:
    """Return a generator of its own for a purpose, so that what one draws does not move what another does."""
    return random.Random(f"{purpose} {seed}")
