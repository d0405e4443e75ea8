"""The sans-IO recorder: calls as they happen in, a trace without their content out."""

from rotoscope.recorder.recorder import Exchange, Recorder

__all__ = ["Exchange", "Recorder"]
