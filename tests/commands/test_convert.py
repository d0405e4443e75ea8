from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import otlp_spans
import pytest
from foreign_traces import agent, request, weka
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from typer.testing import CliRunner, Result

from rotoscope.cli import app
from rotoscope.commands.convert import ended_in_order
from rotoscope.testing import make_trace, trace_of
from rotoscope.traces import Trace, UnusableInput, dumps, loads, save
from rotoscope.traces.formats import open_traces
from rotoscope.traces.formats.convert import Target
from rotoscope.traces.formats.convert import convert as write
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.registry import format_named
from rotoscope.traces.model import Wait


def convert(*arguments: str | Path, data: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)], input=data, catch_exceptions=False)


def test_a_foreign_trace_becomes_ours_and_the_account_goes_to_stderr(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_bytes(weka(request(0, [1], api_time=1.0), agent(3, request(0, [2])), request(9, [1, 2])))

    done = convert(source, tmp_path / "y.trace.json")

    assert done.exit_code == 0
    assert done.stdout == ""
    assert "Rotoscope: traces 1, calls 3, files 1" in done.stderr
    assert json.loads((tmp_path / "y.trace.json").read_text())["format"]["name"] == "rotoscope.trace"


def test_the_help_names_the_formats_that_can_be_written() -> None:
    help_text = " ".join(convert("--help").stdout.split())
    with pytest.raises(UnusableInput) as refused:
        convert("in", "out", "--to", "none")

    names = str(refused.value).partition("choose one of ")[2]
    assert f"Format to write: {names}." in help_text.replace("- ", "-")


def test_a_trace_goes_from_standard_input_to_standard_output() -> None:
    done = convert("-", "-", data=dumps(make_trace()))

    assert loads(done.stdout_bytes) == make_trace()


def test_one_path_alone_is_wrong_usage(tmp_path: Path) -> None:
    save(make_trace(), tmp_path / "a.json")

    with pytest.raises(UnusableInput, match="where to write"):
        convert(tmp_path / "a.json")


def test_growth_may_be_assumed(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_bytes(weka(request(0, [1, 2], tail=5, out=30), request(5, [1, 2, 3])))

    done = convert(source, tmp_path / "y.trace.json", "--assume-growth")

    assert "assumed for 1 of 2 calls" in done.stderr
    found = loads((tmp_path / "y.trace.json").read_bytes())
    assert [c.prefix.source for c in found.calls()] == ["blocks", "assumed"]


def test_what_another_replay_does_otherwise_is_listed(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_bytes(weka(request(0, [1, 2], out=0), request(5, [1, 2, 3])))

    done = convert(source, tmp_path / "y.trace.json", "--to", "trtllm")

    assert "replay by TensorRT-LLM: 1 calls are not as they were" in done.stderr
    assert "x.json: call 0: its empty answer has one token there" in done.stderr


def test_spans_come_in_json_and_in_protobuf_and_begin_when_asked(tmp_path: Path) -> None:
    save(make_trace(turns=2), tmp_path / "a.json")

    for to in ("otlp", "otlp-protobuf"):
        done = convert(tmp_path / "a.json", tmp_path / to, "--to", to, "--started-at", "2026-01-31T09:00:00Z")
        assert done.exit_code == 0, done.stderr

    assert "OTLP in protobuf: traces 1, calls 2, files 1" in done.stderr
    found = TracesData.FromString((tmp_path / "otlp-protobuf").read_bytes())
    [span, *_] = json.loads((tmp_path / "otlp").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert span["startTimeUnixNano"] == "1769850000000000000"
    assert found.resource_spans[0].scope_spans[0].spans[0].start_time_unix_nano == 1769850000000000000


def test_spans_of_other_programs_become_traces_with_an_account(tmp_path: Path) -> None:
    top = otlp_spans.agent(at=(0, 9))
    calls = [otlp_spans.chat(100 * n, 10, {"secret": "a canary"}, at=(n, n + 0.5), parent=top) for n in (1, 2, 3)]

    done = convert("-", tmp_path / "y.trace.json", data=otlp_spans.file_of(top, *calls))

    assert done.exit_code == 0
    assert "Rotoscope: traces 1, calls 3, files 1" in done.stderr
    assert "approximated prefixes of calls whose spans hold no content (3 calls): assumed by" in done.stderr
    assert [call.prefix.of for call in loads((tmp_path / "y.trace.json").read_bytes()).calls()] == [None, 0, 1]
    assert "canary" not in done.stderr + (tmp_path / "y.trace.json").read_text()


def test_spans_are_written_of_a_trace_without_calls_too(tmp_path: Path) -> None:
    save(trace_of(Wait(kind="think", duration_ms=5.0)), tmp_path / "a.json")

    done = convert(tmp_path / "a.json", "-", "--to", "otlp")

    assert "wait think" in done.stdout


def test_a_format_that_does_not_say_when_runs_were_takes_no_time(tmp_path: Path) -> None:
    save(make_trace(), tmp_path / "a.json")

    with pytest.raises(UnusableInput, match="Rotoscope does not say when runs were: leave out --started-at"):
        convert(tmp_path / "a.json", tmp_path / "b.json", "--started-at", "2026-01-31T09:00:00Z")


def test_sigterm_ends_it_without_a_part_of_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    save(make_trace(), tmp_path / "a.json")

    def end(trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes:
        os.kill(os.getpid(), signal.SIGTERM)
        return b""

    before = signal.getsignal(signal.SIGTERM)
    target = Target(path=str(out), format=replace(format_named("rotoscope"), write_trace=end))
    with pytest.raises(SystemExit) as ended, ended_in_order():
        write(open_traces([tmp_path / "a.json"]), target, Fidelity())

    assert ended.value.code == 128 + signal.SIGTERM
    assert list(out.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before
