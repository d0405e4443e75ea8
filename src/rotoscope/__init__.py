"""Record live agent runs without their content and replay them against any inference server.

The names below load what they need when they are first used, so that importing rotoscope costs an agent nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.run import replay
    from rotoscope.sdk.decorators import trace_agent, trace_tool
    from rotoscope.sdk.here import current_run
    from rotoscope.sdk.instrumenting import instrument
    from rotoscope.sdk.regions import parallel, wait
    from rotoscope.traces.analysis.optimum import planned_hits
    from rotoscope.traces.errors import RotoscopeError
    from rotoscope.traces.formats.recognise import open_trace, open_traces
    from rotoscope.traces.model import Trace
    from rotoscope.traces.reader import load
    from rotoscope.traces.writer import save

__all__ = [
    "ReplayOptions",
    "RotoscopeError",
    "Trace",
    "current_run",
    "instrument",
    "load",
    "open_trace",
    "open_traces",
    "parallel",
    "planned_hits",
    "replay",
    "save",
    "trace_agent",
    "trace_tool",
    "wait",
]

__version__ = "0.1.0"

FORMAT_MODULES = ("rotoscope.sdk.otlp.format",)
"""Modules of trace formats that need more than the traces package; each is imported when a file may be of it."""

_HOMES = {
    "ReplayOptions": "rotoscope.replayer.options",
    "RotoscopeError": "rotoscope.traces.errors",
    "Trace": "rotoscope.traces.model",
    "current_run": "rotoscope.sdk.here",
    "instrument": "rotoscope.sdk.instrumenting",
    "load": "rotoscope.traces.reader",
    "open_trace": "rotoscope.traces.formats.recognise",
    "open_traces": "rotoscope.traces.formats.recognise",
    "parallel": "rotoscope.sdk.regions",
    "planned_hits": "rotoscope.traces.analysis.optimum",
    "replay": "rotoscope.replayer.run",
    "save": "rotoscope.traces.writer",
    "trace_agent": "rotoscope.sdk.decorators",
    "trace_tool": "rotoscope.sdk.decorators",
    "wait": "rotoscope.sdk.regions",
}

if not TYPE_CHECKING:  # a type checker shall refuse the names that are not in the table

    def __getattr__(name: str) -> object:
        """Load a public name from its module on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


logging.getLogger(__name__).addHandler(logging.NullHandler())
