"""What records in this process, if anything does; decorators ask here whether there is anything to do."""

from __future__ import annotations

import sys

from rotoscope.sdk.runs import Recording, Run

_recording: Recording | None = None
_modules = sys.modules


def is_on() -> bool:
    """Tell whether anybody wants to know what agents do: a recording, or a tracer provider."""
    if _recording is not None:
        return True
    trace = _modules.get("opentelemetry.trace")  # as has_provider does; a call less, as this stands before every tool
    return trace is not None and getattr(trace, "_TRACER_PROVIDER", trace) is not None


def current_recording() -> Recording | None:
    """Return what records in this process."""
    return _recording


def record_by(recording: Recording | None) -> None:
    """Let runs that begin from now on be recorded."""
    global _recording
    _recording = recording


def begin_run() -> Run | None:
    """Begin a run; None where nothing records."""
    return None if _recording is None else _recording.begin_run()
