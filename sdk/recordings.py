"""What records in this process, if anything does; decorators ask here whether there is anything to do.

Until somebody says what records, that is what the environment leads to. It is looked at when the first agent or tool
runs, so that a program may set it before, and nothing is sent before there is something to tell.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from types import ModuleType

from rotoscope.recorder.variables import DISABLED_VARIABLE, PARENT_VARIABLE, PROCESS_VARIABLE
from rotoscope.sdk.account import count_at_exit, warn
from rotoscope.sdk.gateways import NoGateway, named_in
from rotoscope.sdk.runs import Recording, Run
from rotoscope.sdk.scopes import Line, Scope

_log = logging.getLogger(__name__)

open_agents: set[object] = set()
"""Agents of this process that have begun and not ended, but for those that stand on the line of others."""

_recording: Recording | None = None
_is_decided = False
_deciding = threading.RLock()  # what is loaded for it asks again
_is_off = False
_modules = sys.modules
_trace: ModuleType | None = None


def is_on() -> bool:
    """Tell whether anybody wants to know what agents do: a recording, or a tracer provider."""
    global _trace
    if _recording is not None:
        return True
    if not _is_decided and _decide():
        return True
    if _trace is None:  # as has_provider asks; in the fewest steps, as this stands before every tool
        _trace = _modules.get("opentelemetry.trace")
        if _trace is None:
            return False
    return getattr(_trace, "_TRACER_PROVIDER", _trace) is not None and not _is_off


def is_off() -> bool:
    """Tell whether decorators are to do nothing, spans included."""
    return _is_off


def is_disabled() -> bool:
    """Tell whether the environment says so."""
    return os.environ.get(DISABLED_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def current_recording() -> Recording | None:
    """Return what records in this process."""
    return _recording


def record_by(recording: Recording | None) -> None:
    """Let runs that begin from now on be recorded."""
    global _recording, _is_decided
    if recording is not None:
        count_at_exit("agents", lambda: len(open_agents))
    _recording, _is_decided = recording, True


def begin_run() -> Run | None:
    """Begin a run; None where nothing records."""
    return None if _recording is None else _recording.begin_run()


def scope_of_parent() -> Scope | None:
    """Return what all of this process is inside of: a line of the process that began it, where the environment says so."""
    if not os.environ.get(PARENT_VARIABLE) or _recording is None:
        return None
    run = _recording.join_run()
    return None if run is None else Scope(Line(run, named_in(os.environ, PARENT_VARIABLE)))


def _decide() -> bool:
    """Look at the environment, once, unless somebody says meanwhile what records; tell whether anything does."""
    global _is_off
    with _deciding:
        if not _is_decided:
            _is_off = is_disabled()
            found = None if _is_off else _by_environment()
            if not _is_decided:
                record_by(found)
        return _recording is not None


def _by_environment() -> Recording | None:
    try:
        from rotoscope.sdk.instrumenting import recording_by_environment

        return recording_by_environment(os.environ)
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        warn("agents are not recorded: %s", error if isinstance(error, NoGateway) else type(error).__name__)
        return None


def _begin_in_child() -> None:
    """Forget the agents of the process that this one was forked from, and whoever was deciding there."""
    global _deciding
    open_agents.clear()
    _deciding = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


def be_led() -> None:
    """Look at the environment now where another process records this one: calls are told of where no agent runs too.

    Where another thread is at it, that is enough: it may wait for the module whose loading has led here.
    """
    if os.environ.get(PROCESS_VARIABLE) and _deciding.acquire(blocking=False):
        try:
            is_on()
        finally:
            _deciding.release()
