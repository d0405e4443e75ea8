"""Spans of agents, tools, fan-outs and branches; without a tracer provider in the process there are none.

This module loads no OpenTelemetry: an agent without it pays nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Protocol

from rotoscope.sdk import recordings
from rotoscope.sdk.account import count_at_exit

_log = logging.getLogger(__name__)


class Span(Protocol):
    """A span that is under way. None of this raises."""

    def attach(self) -> None:
        """Let spans that begin now stand below it."""

    def detach(self) -> None:
        """End that."""

    def end(self, error: BaseException | None) -> None:
        """End it; of an error its type is told."""


class Counts:
    """How many spans are open, how many were lost, and how often something around an agent or tool went wrong."""

    def __init__(self) -> None:
        self.open = 0
        self.lost = 0
        self.failed = 0
        self._is_told_at_exit = False

    def begin(self) -> None:
        """Count a span that begins."""
        self.open += 1
        if not self._is_told_at_exit:
            self._tell_at_exit()

    def lose(self, error: Exception) -> None:
        """Count a span that could not be made or ended, and tell the first time. Never raises."""
        self.lost += 1
        if self.lost == 1:
            self._say("spans are lost: %s", error)

    def fail(self, error: Exception) -> None:
        """Count what a recording failed to take in, and tell the first time. Never raises."""
        self.failed += 1
        if self.failed == 1:
            self._say("what agents do is not recorded: %s", error)

    def begin_in_child(self) -> None:
        """Forget what the process counted that this one was forked from."""
        self.open = self.lost = self.failed = 0
        self._is_told_at_exit = False

    def _say(self, line: str, error: Exception) -> None:
        with contextlib.suppress(Exception):  # at the limit of recursion even this
            self._tell_at_exit()
            _log.warning(line, type(error).__name__)

    def _tell_at_exit(self) -> None:
        self._is_told_at_exit = True
        count_at_exit("open_spans", lambda: self.open)
        count_at_exit("spans", lambda: self.lost)
        count_at_exit("steps", lambda: self.failed)


counts = Counts()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=counts.begin_in_child)


def has_provider() -> bool:
    """Tell whether the process has a tracer provider, without loading OpenTelemetry to ask."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and getattr(trace, "_TRACER_PROVIDER", trace) is not None


def begin_span(operation: str, name: str, *, parent: Span | None = None) -> Span | None:
    """Begin a span below `parent`, else below the current one; None without a provider. Never raises."""
    if not has_provider() or recordings.is_off():
        return None
    try:
        from rotoscope.sdk.live_spans import begun

        return begun(operation, name, parent)
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.lose(error)
        return None


def propagated_traceparent() -> str:
    """Return the current span as the propagator of the process tells it in `traceparent`, if that is loaded; else nothing.

    Never raises. What else a propagator tells, such as baggage, is the agent's own.
    """
    propagate = sys.modules.get("opentelemetry.propagate")
    return "" if propagate is None else _injected(propagate.inject)


def current_traceparent() -> str:
    """Return the current span as `traceparent` names it, whatever the process tells others; else nothing. Never raises."""
    if not has_provider():
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return _injected(TraceContextTextMapPropagator().inject)


def _injected(inject: Callable[[dict[str, str]], None]) -> str:
    if not has_provider() or recordings.is_off():
        return ""
    carrier: dict[str, str] = {}
    try:
        inject(carrier)
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.lose(error)
    return carrier.get("traceparent", "")
