"""Chance for the scripts: a source of its own for each thing that is drawn, so that nothing depends on an order."""

from __future__ import annotations

import hashlib
import random


def chance(seed: int, *what: object) -> random.Random:
    """Return a source of chance of its own for each thing that is drawn."""
    name = "/".join(map(str, ("examples/scripted_model", seed, *what)))
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()))
