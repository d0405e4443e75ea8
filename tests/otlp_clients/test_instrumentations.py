"""Spans of real instrumentations as traces, held against what the server saw and what the gateway recorded of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from clients.checks import broken_laws_of_replay
from clients.truth import TrueCall, pairs
from otlp_clients.plays import Told

from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.traces import Call, Embedding, ParallelStart, ToolCall, Trace
from rotoscope.traces.audit import audit
from rotoscope.traces.audit_kinds import TRACE_KINDS
from rotoscope.traces.canary import Canaries

WITHOUT_CONTENT = {"genai"}
LOSES_SOME_CONTENT = {"anthropic-traceloop"}
"""Which have no content of streams that were left; the client has a span of its own for them, which has none."""
WITHOUT_TEXT_COMPLETIONS = {"genai", "genai-content"}
"""What the instrumentation of these has no spans for."""
TOLD_TOOLS = {"genai-agents", "openinference-langgraph", "traceloop-langgraph", "langfuse", "logfire"}
TOLD_LINES = {"openinference-langgraph", "traceloop-langgraph", "langfuse", "genai-agents"}
SEE_MORE_TOOLS = {"logfire"}
"""Agents that run tools whose results they never send to the server."""
TOOL_MS = 20.0


def calls_of(traces: Sequence[Trace]) -> list[Call]:
    return [call for trace in traces for call in trace.calls()]


def is_counted(call: Call, trace: Trace) -> bool:
    """Tell whether both lengths of a call are those that the server told."""
    sources = call.prompt_tokens_source or trace.token_source, call.completion_tokens_source or trace.token_source
    return set(sources) == {"usage"}


def counted(traces: Sequence[Trace]) -> Counter[tuple[int, int]]:
    return Counter(
        (call.prompt_tokens, call.completion_tokens)
        for trace in traces
        for call in trace.calls()
        if is_counted(call, trace)
    )


def test_every_call_is_there_once(told: Told) -> None:
    calls, recorded = calls_of(told.traces), list(told.recorded.calls())

    missing = len(recorded) - len(calls)
    if told.name in WITHOUT_CONTENT:
        assert "lost calls without usage and content" in told.said
        assert 0 < missing < len(recorded)
    else:
        assert missing == (told.name in WITHOUT_TEXT_COMPLETIONS)


def test_lengths_are_those_that_the_gateway_recorded(told: Told) -> None:
    found, recorded = counted(told.traces), counted([told.recorded])

    assert found
    assert found - recorded == Counter()


def test_what_was_cached_is_what_the_server_told(told: Told) -> None:
    cached = Counter(call.cached_tokens for call in calls_of(told.traces) if call.cached_tokens)
    recorded = Counter(call.cached_tokens for call in told.recorded.calls() if call.cached_tokens)

    assert cached - recorded == Counter()
    assert cached


def test_true_common_prefixes_lie_within_the_bounds(told: Told) -> None:
    found = [pair for trace in told.traces for pair in pairs(trace, true_calls(trace, told))]

    widths = sorted(one.high - one.low for one in found)
    print(f"\n{told.name}: {len(found)} pairs, bounds {widths[len(found) // 2]} (at most {widths[-1]}) tokens wide")
    assert [one for one in found if not one.holds] == []


def true_calls(trace: Trace, told: Told) -> list[TrueCall]:
    """Return the calls whose lengths one generation alone has, with that one."""
    by_lengths: dict[tuple[int, int], list[Generation]] = {}
    for request in told.seen:
        for generation in request.generations:
            by_lengths.setdefault((len(generation.prompt_ids), generation.generated), []).append(generation)
    lengths = [(call, by_lengths.get((call.prompt_tokens, call.completion_tokens), [])) for call in trace.calls()]
    return [
        TrueCall(call, generations[0])
        for call, generations in lengths
        if is_counted(call, trace) and len({one.prompt_ids.tobytes() for one in generations}) == 1
    ]


def test_tools_have_the_times_of_their_spans(told: Told) -> None:
    tools = [event for trace in told.traces for event in trace.events if isinstance(event, ToolCall)]

    timed = [tool for tool in tools if tool.time_source == "sdk"]
    assert bool(timed) == (told.name in TOLD_TOOLS)
    assert told.name not in TOLD_TOOLS or timed == tools
    assert all(tool.duration_ms >= TOOL_MS for tool in timed)
    recorded = [event for event in told.recorded.events if isinstance(event, ToolCall)]
    known = WITHOUT_CONTENT | SEE_MORE_TOOLS
    assert told.name in known or len(tools) == len(recorded)
    assert told.name not in SEE_MORE_TOOLS or len(tools) > len(recorded)


def test_agents_at_the_same_time_are_branches(told: Told) -> None:
    regions = [event for trace in told.traces for event in trace.events if isinstance(event, ParallelStart)]

    found = {(region.num_branches, region.evidence) for region in regions}
    assert told.name not in TOLD_LINES or found == {(2, "client")}


def test_embeddings_are_there(told: Told) -> None:
    found = [e.prompt_tokens for trace in told.traces for e in trace.events if isinstance(e, Embedding)]
    recorded = [e.prompt_tokens for e in told.recorded.events if isinstance(e, Embedding)]

    assert found == recorded


def test_prefixes_without_content_are_marked(told: Told) -> None:
    sources = {call.prefix.source for call in calls_of(told.traces)}

    if told.name in WITHOUT_CONTENT:
        assert sources <= {"assumed", "opaque"}
    else:
        assert "text" in sources
        assert ("opaque" in sources) == (told.name in LOSES_SOME_CONTENT)


def test_nothing_that_anyone_said_is_in_any_byte(told: Told) -> None:
    canaries = Canaries.of(told.canaries)

    assert bool(list(canaries.in_bytes(told.spans.read_bytes()))) == (told.name not in WITHOUT_CONTENT)
    found = audit([told.written], kinds=TRACE_KINDS, canaries=canaries).findings.kept
    assert [*map(str, found)] == []
    assert list(canaries.in_bytes(told.said.encode())) == []


def test_replays_send_prompts_that_share_what_the_traces_say(told: Told, tmp_path: Path) -> None:
    for number, trace in enumerate(told.traces):
        assert broken_laws_of_replay(trace, tmp_path / str(number)) == []
