"""What an agent that tells of itself lost or did not end: numbers alone, for the person who records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Loss: TypeAlias = Literal["marks", "told", "agents", "spans", "open_spans", "steps", "calls", "traces"]
"""What there is a number of; each is `PHRASES` in words."""

PHRASES: dict[Loss, str] = {
    "marks": "marks that did not reach the gateway",
    "told": "marks and calls that did not reach the process that records",
    "agents": "agents that have not ended",
    "open_spans": "spans that have not ended",
    "spans": "spans that were lost",
    "steps": "what agents did and was not recorded",
    "calls": "calls that were made after their run had ended",
    "traces": "traces that are not in their folder",
}


def phrased(losses: Mapping[Loss, int]) -> str:
    """Return in words what there is some of; empty where there is nothing."""
    return "; ".join(f"{phrase}: {losses[loss]}" for loss, phrase in PHRASES.items() if losses.get(loss, 0) > 0)
