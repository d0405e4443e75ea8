"""Published traces too pass an audit once they are in our format; publishing them rounded hardly changes their hit rates."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_prefix_law_on_the_wire import data_files

from rotoscope.traces.audit import audit
from rotoscope.traces.formats.convert import Target, convert
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.formats.registry import format_named
from rotoscope.traces.publish import PublishOptions, publish

DATA = data_files("weka/trace_0028.json", "weka/trace_0277.json", "trtllm/*.trace.json")


@pytest.mark.parametrize("name", DATA)
def test_what_was_read_from_other_formats_holds_nothing_but_numbers(name: str, data_dir: Path, tmp_path: Path) -> None:
    traces = open_traces([data_dir / name])
    convert(traces, Target(path=str(tmp_path / "run-1.trace.json"), format=format_named("rotoscope")), Fidelity())

    done = audit([tmp_path])

    assert {one.what for one in done.findings.kept} <= {
        "times are finer than a microsecond: publish it, which rounds them"
    }


@pytest.mark.parametrize("step", [16, 64])
@pytest.mark.parametrize("name", DATA)
def test_rounding_moves_hit_rates_little(name: str, step: int, data_dir: Path, tmp_path: Path) -> None:
    published = publish(open_traces([data_dir / name]), tmp_path / "out", PublishOptions(round_tokens=step))
    assert audit([tmp_path / "out"]).is_clean
    rates = [one for one in published.effects if "hit rate" in one.what]

    assert len(rates) == 4
    assert all(abs(one.after - one.before) < 0.005 for one in rates)
