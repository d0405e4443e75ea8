"""Foreign trace formats: one reader each, and what tells them apart."""

from rotoscope.traces.formats.recognise import LabelledTrace, open_trace, open_traces
from rotoscope.traces.formats.trtllm import read_trtllm
from rotoscope.traces.formats.weka import read_weka

__all__ = ["LabelledTrace", "open_trace", "open_traces", "read_trtllm", "read_weka"]
