"""Whatever a file of any format says, Weka's and TensorRT-LLM's writers make a file of it that their readers take."""

from __future__ import annotations

import pytest
from format_samples import SAMPLES

from rotoscope.traces import Trace
from rotoscope.traces.assume_growth import assume_growth
from rotoscope.traces.formats import trtllm_writer, weka_writer
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.trtllm import read_trtllm
from rotoscope.traces.formats.weka import read_weka

FILES = [pytest.param(data, id=f"{name}-{i}") for name, files in SAMPLES.items() for i, data in enumerate(files)]


def traces_of(data: bytes) -> list[Trace]:
    """Return the traces of a file, as they are and with growth assumed."""
    traces = [member.trace for member in read_source(Source.of_bytes(data))[1]]
    return [*traces, *(assume_growth(trace)[0] for trace in traces)]


def lengths(trace: Trace, least: int = 0) -> list[tuple[int, int]]:
    return sorted((call.prompt_tokens, max(call.completion_tokens, least)) for call in trace.calls())


@pytest.mark.parametrize("data", FILES)
def test_every_format_becomes_weka_files(data: bytes) -> None:
    for trace in traces_of(data):
        again = read_weka(weka_writer.write_trace(trace, Fidelity()))

        assert lengths(again) == lengths(trace)


@pytest.mark.parametrize("data", FILES)
def test_every_format_becomes_tensorrt_llm_files(data: bytes) -> None:
    for trace in traces_of(data):
        again = read_trtllm(trtllm_writer.write_trace(trace, Fidelity()))

        assert lengths(again) == lengths(trace, least=1)
