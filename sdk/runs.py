"""A run that this process takes part in, and what records it: a gateway, a recorder in this process, or another process."""

from __future__ import annotations

from typing import Protocol

from rotoscope.recorder.marks import Mark


class Run(Protocol):
    """A run while it goes on. None of this raises."""

    @property
    def name(self) -> str:
        """What a gateway knows it by; empty where the gateway's own run is meant."""

    def tell(self, mark: Mark) -> None:
        """Tell its recorder of something."""

    def end(self) -> None:
        """End it."""

    def environment(self) -> dict[str, str]:
        """Return the variables by which another process takes part in it; none where that cannot be."""


class Recording(Protocol):
    """What records the runs of this process. None of this raises."""

    def begin_run(self) -> Run:
        """Begin a run."""

    def join_run(self) -> Run | None:
        """Take part in the run of the process that began this one; None where that cannot be."""

    def flush(self, timeout_s: float) -> None:
        """Wait until everything that was told has arrived."""
