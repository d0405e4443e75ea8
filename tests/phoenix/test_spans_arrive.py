"""Software that nobody here wrote takes the spans: Phoenix stores them, OpenTelemetry's own readers read them."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData
from typer.testing import CliRunner

from examples.tracing.__main__ import run_agent, tree
from examples.tracing.phoenix import Phoenix, StoredSpan
from rotoscope import open_traces
from rotoscope.cli import app
from rotoscope.sdk.otlp.trace_of_spans import trace_of_spans
from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Trace, save
from rotoscope.traces.model import Call, Embedding, ToolCall

TRACES = Path(__file__).parents[2] / "examples" / "traces"
READER = Path(__file__).parent / "json_reader.py"


def converted(source: Path, out: Path, to: str) -> bytes:
    options = ["--to", to, "--started-at", "2026-01-31T09:00:00Z"]
    done = CliRunner().invoke(app, ["convert", str(source), str(out), *options], catch_exceptions=False)
    assert done.exit_code == 0
    return out.read_bytes()


def spans_in(data: bytes) -> list[Span]:
    return [span for of in TracesData.FromString(data).resource_spans for s in of.scope_spans for span in s.spans]


@pytest.fixture(scope="module")
def recorded() -> list[Trace]:
    """Traces of coding agents, with branches, tools, waits and cached tokens."""
    return [labelled.trace for labelled in open_traces([TRACES])]


@pytest.fixture(scope="module")
def stored(
    phoenix: Phoenix, recorded: list[Trace], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[StoredSpan]]:
    """The spans of all of them as Phoenix has them after they were sent in one request, by OpenTelemetry's trace."""
    data = converted(TRACES, tmp_path_factory.mktemp("spans") / "all.pb", "otlp-protobuf")
    assert phoenix.send(data) == 200
    by_trace: defaultdict[str, list[StoredSpan]] = defaultdict(list)
    for span in phoenix.spans(expected=len(spans_in(data))):
        by_trace[span.trace_id].append(span)
    return by_trace


def test_the_traces_are_made_of_what_is_stored_again(
    stored: dict[str, list[StoredSpan]], recorded: list[Trace]
) -> None:
    again = [trace_of_spans(spans).trace for spans in stored.values()]

    assert len(again) == len(recorded) > 0
    assert {trace.trace_id: trace for trace in again} == {trace.trace_id: trace for trace in recorded}


def test_calls_are_shown_as_a_models_tools_as_tools_and_branches_as_agents(
    stored: dict[str, list[StoredSpan]], recorded: list[Trace]
) -> None:
    shown = Counter(span.shown_as for spans in stored.values() for span in spans)
    events = [event for trace in recorded for event in trace.events]

    assert shown["LLM"] == sum(isinstance(event, Call) for event in events)
    assert shown["EMBEDDING"] == sum(isinstance(event, Embedding) for event in events)
    assert shown["TOOL"] == sum(isinstance(event, ToolCall) for event in events)
    assert shown["AGENT"] == len(recorded) + len(
        {(trace.trace_id, event.branch) for trace in recorded for event in trace.events if event.branch}
    )


def test_tokens_add_up_to_those_of_the_traces(stored: dict[str, list[StoredSpan]], recorded: list[Trace]) -> None:
    found: Counter[str] = Counter()
    for span in (span for spans in stored.values() for span in spans if span.shown_as == "LLM"):
        found["prompt"] += span.attributes["llm.token_count.prompt"]
        found["completion"] += span.attributes["llm.token_count.completion"]
        found["cached"] += span.attributes.get("llm.token_count.prompt_details.cache_read", 0)
    calls = [call for trace in recorded for call in trace.calls()]

    assert found["prompt"] == sum(call.prompt_tokens for call in calls)
    assert found["completion"] == sum(call.completion_tokens for call in calls)
    assert found["cached"] == sum(call.cached_tokens or 0 for call in calls)


def test_each_span_but_the_roots_has_its_parent(stored: dict[str, list[StoredSpan]]) -> None:
    for spans in stored.values():
        known = {span.span_id for span in spans}
        assert [span.name for span in spans if span.parent_id not in known] == ["invoke_agent root"]


def test_a_call_that_failed_is_shown_as_failed(phoenix: Phoenix, tmp_path: Path) -> None:
    save(trace_of(make_call(finish_reason="cancelled"), trace_id="00000000000000ff"), tmp_path / "a.trace.json")
    data = converted(tmp_path / "a.trace.json", tmp_path / "a.pb", "otlp-protobuf")
    mine = spans_in(data)[0].trace_id.hex()
    before = len(phoenix.spans())

    phoenix.send(data)

    found = [span for span in phoenix.spans(expected=before + 2) if span.trace_id == mine]
    assert {span.name: span.status for span in found} == {"invoke_agent root": "UNSET", "chat domain0": "ERROR"}


def test_opentelemetrys_own_reader_finds_the_same_in_json_as_in_protobuf(programs: Path, tmp_path: Path) -> None:
    lines = converted(TRACES, tmp_path / "all.jsonl", "otlp")
    expected = [
        [
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            sorted(one.key for one in span.attributes),
            len(span.events),
            span.status.code,
        ]
        for span in spans_in(converted(TRACES, tmp_path / "all.pb", "otlp-protobuf"))
    ]

    done = subprocess.run([programs / "python", READER], input=lines, check=True, capture_output=True)

    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


def test_the_example_sends_an_agents_spans_with_the_users_own_exporter(phoenix: Phoenix) -> None:
    before = {span.span_id for span in phoenix.spans(expected=0)}

    assert run_agent(["examples.tree_of_thought", "--depth", "1"], phoenix.url) == 0

    stored = phoenix.spans(expected=len(before) + 8)  # the agent, its two fan-outs, and three and two branches
    lines = list(tree([span for span in stored if span.span_id not in before]))
    assert lines[0].startswith("invoke_agent solver (AGENT, ")
    assert any(line.startswith("  parallel propose ") for line in lines)
    assert any(line.startswith("    branch thinker ") for line in lines)
