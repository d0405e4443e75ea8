"""A run that is recorded without a gateway, and who keeps it: a recorder in this process, or the process that began it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rotoscope.recorder.marks import Mark
from rotoscope.recorder.variables import RUN_VARIABLE
from rotoscope.sdk.scopes import new_name


class Call(Protocol):
    """A call while it goes on; times are in seconds of time.monotonic(). None of this raises."""

    @property
    def body(self) -> bytes:
        """What is to be sent; the object that was given where nothing is added."""

    def take_back(self) -> None:
        """The server refused what was added."""

    def response(self, status: int, content_type: str, at_s: float) -> None:
        """The answer begins."""

    def chunk(self, data: bytes, at_s: float) -> bytes:
        """Some of it has come; return what the client is to get of it now."""

    def end(self, at_s: float) -> bytes:
        """It is whole; return what was still held back."""

    def failed(self, at_s: float) -> None:
        """No more will come."""

    def cancelled(self, at_s: float) -> None:
        """The client does not wait for the rest."""


class Keeper(Protocol):
    """Who keeps a run. None of this raises."""

    def tell(self, mark: Mark) -> None:
        """Take in a mark."""

    def call(self, path: str, body: bytes, *, headers: Mapping[str, str], at_s: float, asks_usage: bool) -> Call | None:
        """Take in a request as it is sent; None where its answer need not be heard. `headers` are in lower case."""

    def end(self) -> None:
        """Its agent has returned."""

    def environment(self) -> dict[str, str]:
        """Return the variables by which other processes find it."""


class RunAlone:
    """A run that is recorded without a gateway."""

    def __init__(self, keeper: Keeper, name: str | None = None) -> None:
        """Begin a run, or take part in the one of a name, empty for that of calls outside of every agent."""
        self.name = new_name() if name is None else name
        self.keeper = keeper
        """Another one in a process that was forked."""

    def __repr__(self) -> str:
        return f"RunAlone({self.keeper!r})"

    def tell(self, mark: Mark) -> None:
        """Tell its recorder of something."""
        self.keeper.tell(mark)

    def end(self) -> None:
        """Tell that its agent has returned."""
        self.keeper.end()

    def environment(self) -> dict[str, str]:
        """Return the variables by which another process takes part in it."""
        found = self.keeper.environment()
        return {RUN_VARIABLE: self.name, **found} if found else {}


class Nobody:
    """Keeps no run: what a forked process does where its parent cannot be told."""

    def tell(self, mark: Mark) -> None:
        """Do nothing."""

    def call(self, path: str, body: bytes, *, headers: Mapping[str, str], at_s: float, asks_usage: bool) -> None:
        """Hear nothing."""

    def end(self) -> None:
        """Do nothing."""

    def environment(self) -> dict[str, str]:
        """Lead nowhere."""
        return {}
