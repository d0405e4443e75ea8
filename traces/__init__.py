"""The trace: model, files, forest, formats and what can be computed from it."""

from rotoscope.traces.errors import RotoscopeError, RunFailed, TraceError, UnusableInput
from rotoscope.traces.forest import Forest, normalise
from rotoscope.traces.model import (
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)
from rotoscope.traces.reader import load, loads
from rotoscope.traces.validation import validate
from rotoscope.traces.writer import dumps, save

__all__ = [
    "Call",
    "DropKvCache",
    "Embedding",
    "Forest",
    "Message",
    "ParallelEnd",
    "ParallelStart",
    "Prefix",
    "RotoscopeError",
    "RunFailed",
    "SharedPrefix",
    "SharedPrefixLink",
    "ToolCall",
    "Trace",
    "TraceError",
    "TraceEvent",
    "UnusableInput",
    "Wait",
    "dumps",
    "load",
    "loads",
    "normalise",
    "save",
    "validate",
]
