"""`instrument`: what records the runs of this process, and lets its HTTP clients take part."""

from __future__ import annotations

from pathlib import Path


def instrument(*, folder: Path | str | None = None, gateway: str | None = None) -> None:
    """Record this process: into a folder, or by a gateway that stands at a base URL."""
    raise NotImplementedError
