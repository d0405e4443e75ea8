"""The run that the code stands in, for what no decorator can do: clients of other kinds, threads and processes."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from rotoscope.recorder.own_headers import BRANCH_HEADER, PARENT_HEADER, RUN_HEADER
from rotoscope.recorder.variables import PARENT_VARIABLE
from rotoscope.sdk.scopes import Line, Scope, current_scope
from rotoscope.sdk.spans import current_traceparent

TRACEPARENT_VARIABLE = "TRACEPARENT"
"""Where programs look for the span that began their process."""

P = ParamSpec("P")
T = TypeVar("T")


class CurrentRun:
    """Where in a run the code stands."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __repr__(self) -> str:
        return "CurrentRun()"

    def headers(self) -> dict[str, str]:
        """Return what tells a gateway who sends a request, for a client that `instrument` does not know."""
        self._scope.called()
        return headers_of(self._scope.line)

    def environment(self) -> dict[str, str]:
        """Return the variables by which agents of another process take part: `env={**os.environ, **run.environment()}`.

        Its outermost agents stand below the one that asks. Without a recording that processes can share there are none.
        """
        self._scope.called()
        line = self._scope.line
        shared = line.run.environment()
        traceparent = current_traceparent()
        return {
            **shared,
            PARENT_VARIABLE: line.name,
            **({TRACEPARENT_VARIABLE: traceparent} if traceparent else {}),
        }

    def wrap(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function such that it runs here, whichever thread calls it."""
        context = contextvars.copy_context()

        @functools.wraps(function)
        def run_here(*args: P.args, **kwargs: P.kwargs) -> T:
            return context.copy().run(function, *args, **kwargs)

        return run_here


def current_run() -> CurrentRun | None:
    """Return the run that the code stands in; None outside of every run that is recorded."""
    scope = current_scope()
    return None if scope is None else CurrentRun(scope)


def headers_of(line: Line) -> dict[str, str]:
    """Return the headers of a request on a line."""
    headers = {BRANCH_HEADER: line.name}
    if line.parent is not None:
        headers[PARENT_HEADER] = line.parent.name
    if line.run.name:
        headers[RUN_HEADER] = line.run.name
    return headers
