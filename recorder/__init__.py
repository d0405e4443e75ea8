"""The sans-IO recorder: calls as they happen in, a trace without their content out."""

from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.recorder import Recorder

__all__ = ["Exchange", "Recorder"]
