"""`parallel` and its `branch`: a fan-out and its join, in tasks and threads; `wait`: time that is no tool."""

from __future__ import annotations

import logging
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rotoscope.recorder.marks import WaitMark
from rotoscope.sdk import forks
from rotoscope.sdk.conventions import BRANCH, PARALLEL
from rotoscope.sdk.scopes import Line, Scope, clock, current_scope, enter, leave, new_name
from rotoscope.sdk.spans import Span, begin_span, counts

if TYPE_CHECKING:
    from rotoscope.traces.model import WaitKind

_log = logging.getLogger(__name__)

_KINDS = ("think", "human", "agent")
"""As `WaitKind` has them, which is not loaded for this."""


class _Block:
    """Something that code is inside of, by `with` or `async with`."""

    def _begin(self) -> None:
        raise NotImplementedError

    def _end(self, error: BaseException | None) -> None:
        raise NotImplementedError

    _forks = -1

    def __enter__(self) -> Self:
        self._forks = forks.depth
        try:
            self._begin()
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.fail(failure)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._forks != forks.depth:  # it ends in the process that began it
            return
        try:
            self._end(error)
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.fail(failure)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


class Parallel(_Block):
    """A fan-out; what follows the block comes behind all of its branches."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._region = new_name()
        self._scope: Scope | None = None
        self._span: Span | None = None
        self._start_s = 0.0

    def branch(self, name: str = "") -> Branch:
        """Return a branch, to be entered once by the task or thread that works on it."""
        return Branch(self, name)

    @property
    def span(self) -> Span | None:
        """Its span."""
        return self._span

    def fork(self) -> Scope | None:
        """Begin a line of this fan-out; None outside of every run."""
        above = self._scope
        if above is None:
            return None
        above.called()
        return Scope(above.line.fork(self._region, self._start_s), above, is_branch=True)

    def _begin(self) -> None:
        self._scope, self._start_s = current_scope(), clock()
        self._span = begin_span(PARALLEL, self._name)
        if self._span is not None:
            self._span.attach()

    def _end(self, error: BaseException | None) -> None:
        if self._span is not None:
            self._span.detach()
            self._span.end(error)
        if self._scope is not None:
            self._scope.line.join(self._region)


class Branch(_Block):
    """A branch of a fan-out."""

    def __init__(self, of: Parallel, name: str) -> None:
        self._of, self._name = of, name
        self._token: Token[Scope | None] | None = None
        self._span: Span | None = None

    def _begin(self) -> None:
        self._span = begin_span(BRANCH, self._name, parent=self._of.span)
        if self._span is not None:
            self._span.attach()
        scope = self._of.fork()
        if scope is not None:
            self._token = enter(scope)

    def _end(self, error: BaseException | None) -> None:
        if self._span is not None:
            self._span.detach()
            self._span.end(error)
        if self._token is not None:
            leave(self._token)


class Waiting(_Block):
    """Time that is no tool."""

    def __init__(self, kind: WaitKind) -> None:
        self._kind: WaitKind = kind if kind in _KINDS else _unknown()
        self._line: Line | None = None
        self._start_s = 0.0

    def _begin(self) -> None:
        scope = current_scope()
        self._line, self._start_s = None if scope is None else scope.line, clock()

    def _end(self, error: BaseException | None) -> None:
        if self._line is not None:
            self._line.tell(WaitMark(self._kind, self._line.name, self._start_s, clock()))


def _unknown() -> WaitKind:
    """Tell that a wait is of no known kind, but not of which, as that may be anything, and return what it is taken for."""
    _log.warning("a wait is of no known kind, such as 'human': it is taken for one of thinking")
    return "think"


def parallel(name: str = "") -> Parallel:
    """Begin a fan-out: `with parallel("research") as fan:` with `fan.branch()` in each task or thread."""
    return Parallel(name)


def wait(kind: WaitKind = "think") -> Waiting:
    """Tell of a wait: for a person (`human`), of thinking of the agent's own (`think`), or for another agent (`agent`)."""
    return Waiting(kind)
