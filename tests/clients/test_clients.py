"""Real clients, recorded in front of a scripted server that knows the tokens, audited, and replayed on the simulator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
from clients.checks import broken_laws_of_replay, kept_content, other_lengths, sent_canaries
from clients.recorded import Recorded
from clients.truth import findings, true_calls

from rotoscope.traces import Call, Embedding, ParallelStart, ToolCall

WITHOUT_TOOLS = {"aider"}
TOLD_IN_WORDS = {"smolagents": re.compile(rb"call_[0-9a-f]{24}")}
"""How the ids of calls are found where a client writes calls and results as text."""
WITHOUT_FAN_OUT = {"aider"}
LEAVES_NO_STREAM = {"aider", "crewai", "mini-swe-agent"}
OTHER_TOOLS = {"mini-swe-agent": "its tool is a shell", "smolagents": "final_answer is a tool, and takes no time"}
TOOL_MS = 20.0
ROUNDING_MS = 0.01


def test_every_request_is_a_call_or_an_attempt_at_one(recorded: Recorded) -> None:
    calls = list(recorded.trace.calls())
    embeddings = [event for event in recorded.trace.events if isinstance(event, Embedding)]

    asked = [request for request in recorded.seen if request.is_call]
    assert sum(call.attempts or 1 for call in calls) == len(asked)
    assert [event.prompt_tokens for event in embeddings] == [tokens for one in recorded.seen for tokens in one.embedded]
    assert [call.attempts for call in calls if call.attempts] == [3]


def test_lengths_are_those_of_the_server(recorded: Recorded) -> None:
    assert other_lengths(true_calls(recorded)) == []


def test_a_stream_that_was_left_is_a_cancelled_call(recorded: Recorded) -> None:
    cancelled = [one for one in true_calls(recorded) if one.call.finish_reason == "cancelled"]

    assert bool(cancelled) == (recorded.client not in LEAVES_NO_STREAM)
    for one in cancelled:
        assert 0 < one.generation.generated < len(one.generation.output_ids)
        assert one.call.completion_tokens_source not in (None, "usage")
        # What was delivered is at most what was generated, and an estimate.
        assert 0 < one.call.completion_tokens < 2 * one.generation.generated


def test_true_common_prefixes_lie_within_the_recorded_bounds(recorded: Recorded) -> None:
    found = list(findings(recorded.trace, true_calls(recorded)))

    widths = sorted(one.high - one.low for one in found)
    print(
        f"\n{recorded.client}: {len(found)} pairs, bounds {widths[len(found) // 2]} (at most {widths[-1]}) tokens wide"
    )
    assert [one for one in found if not one.holds] == []


def test_tools_that_told_something_are_in_the_trace_behind_the_call_that_asked(recorded: Recorded) -> None:
    requests = [request.body for request in recorded.seen if request.is_call]
    told: set[str | bytes] = set().union(*(tools_that_told(orjson.loads(body)) for body in requests))
    if recorded.client in TOLD_IN_WORDS:
        told.update(*(TOLD_IN_WORDS[recorded.client].findall(body) for body in requests))
    calls = {call.call: call for call in recorded.trace.calls()}
    tools = [event for event in recorded.trace.events if isinstance(event, ToolCall)]

    assert bool(tools) == (recorded.client not in WITHOUT_TOOLS)
    assert len(tools) == len(told)
    for tool in tools:
        asked = calls[tool.call if tool.call is not None else -1]
        assert tool.tool_name in asked.tool_calls
        assert tool.time_source == "gap"
        assert tool.at_ms is not None
        ended_ms = tool.at_ms + tool.duration_ms
        assert end_ms(asked) <= tool.at_ms + ROUNDING_MS
        # A branch that begins in the gap may leave the tool only what is behind that.
        least_ms = 0.0 if recorded.client in OTHER_TOOLS else TOOL_MS
        assert ended_ms - end_ms(asked) >= least_ms - ROUNDING_MS


def tools_that_told(body: Any) -> set[str]:
    """Return the ids of the tool calls whose results are in a request, in whichever dialect."""
    if isinstance(body, list):
        return set().union(*map(tools_that_told, body))
    if not isinstance(body, dict):
        return set()
    if body.get("role") == "tool" or body.get("type") in ("function_call_output", "tool_result"):
        return {body.get("tool_call_id") or body.get("call_id") or body["tool_use_id"]}
    return set().union(*map(tools_that_told, body.values()))


def end_ms(call: Call) -> float:
    assert call.at_ms is not None
    assert call.duration_ms is not None
    return call.at_ms + call.duration_ms


def test_conversations_at_the_same_time_are_branches(recorded: Recorded) -> None:
    regions = [event.num_branches for event in recorded.trace.events if isinstance(event, ParallelStart)]

    assert bool(regions) == (recorded.client not in WITHOUT_FAN_OUT)


def test_nothing_that_anyone_said_is_in_any_byte(recorded: Recorded) -> None:
    assert sent_canaries(recorded) >= {1, 2, 5, 7}
    assert kept_content(recorded) == []


def test_its_replay_sends_prompts_that_share_what_the_trace_says(recorded: Recorded, tmp_path: Path) -> None:
    assert broken_laws_of_replay(recorded.trace, tmp_path) == []
