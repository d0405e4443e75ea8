from __future__ import annotations

from dataclasses import replace

from rotoscope.sdk.otlp.attributes import Attributes, event_attributes, header_attributes
from rotoscope.testing import TRACE_ID, make_call, make_trace
from rotoscope.traces.model import NO_PREFIX, Embedding, Prefix, ToolCall, TraceEvent, Wait


def of(event: TraceEvent) -> Attributes:
    return event_attributes(4, event, trace_id=TRACE_ID)


def test_a_call_has_what_the_conventions_ask_for_and_its_own_fields_under_our_name() -> None:
    call = make_call(
        3,
        100,
        osl=20,
        domain=1,
        reasoning_tokens=5,
        cached_tokens=64,
        prefix=Prefix(2, 70, "text", low=60),
        finish_reason="tool_calls",
        tool_calls=("tool0", "tool1"),
        branch=(0, 1),
        at_ms=1.5,
        ttft_ms=250.0,
        duration_ms=900.0,
        link="own",
    )

    assert of(call) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "unknown",
        "gen_ai.request.model": "domain1",
        "gen_ai.conversation.id": "0000000000000001-0",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "rotoscope.event": 4,
        "rotoscope.event_type": "call",
        "rotoscope.call": 3,
        "rotoscope.domain": 1,
        "rotoscope.branch": (0, 1),
        "rotoscope.conversation_id": 0,
        "rotoscope.message_index": 8,
        "rotoscope.prefix.of": "2",
        "rotoscope.prefix.tokens": 70,
        "rotoscope.prefix.source": "text",
        "rotoscope.prefix.low": 60,
        "rotoscope.tool_calls": ("tool0", "tool1"),
        "rotoscope.finish_reason": "tool_calls",
        "rotoscope.at_ms": 1.5,
        "rotoscope.ttft_ms": 250.0,
        "rotoscope.duration_ms": 900.0,
        "rotoscope.link": "own",
    }


def test_what_is_not_known_is_left_out() -> None:
    attributes = of(make_call(finish_reason="unknown", reasoning_unsized=True))

    assert not attributes.keys() & {
        "gen_ai.response.finish_reasons",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.conversation.compacted",
        "rotoscope.prefix.of",
        "rotoscope.branch",
        "rotoscope.branch_path",
    }


def test_a_call_that_was_cut_tells_an_error_as_the_conventions_do_and_the_reason_as_we_do() -> None:
    attributes = of(make_call(finish_reason="cancelled"))

    assert attributes["gen_ai.response.finish_reasons"] == ("error",)
    assert attributes["error.type"] == "cancelled"
    assert attributes["rotoscope.finish_reason"] == "cancelled"


def test_compaction_is_told_where_it_was_seen_and_never_denied() -> None:
    assert of(make_call(link="compaction"))["gen_ai.conversation.compacted"] is True
    assert "gen_ai.conversation.compacted" not in of(make_call(link="own"))


def test_tools_embeddings_and_waits() -> None:
    tool = of(ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=5.0, call=1, time_source="gap"))

    assert tool == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.name": "tool0",
        "gen_ai.tool.call.id": "t0",
        "rotoscope.event": 4,
        "rotoscope.event_type": "tool_call",
        "rotoscope.duration_ms": 5.0,
        "rotoscope.call": 1,
        "rotoscope.time_source": "gap",
    }
    assert of(Embedding(prompt_tokens=9))["gen_ai.usage.input_tokens"] == 9
    assert of(Wait(kind="human", duration_ms=5.0))["rotoscope.kind"] == "human"


def test_a_prefix_of_a_shared_one_and_of_a_call_have_one_type() -> None:
    of_shared, of_call = make_call(prefix=Prefix("s0", 4, "ids")), make_call(prefix=Prefix(0, 4, "ids"))

    assert (of(of_shared)["rotoscope.prefix.of"], of(of_call)["rotoscope.prefix.of"]) == ("s0", "0")
    assert "rotoscope.prefix.of" not in of(make_call(prefix=NO_PREFIX))


def test_the_header_is_told_with_the_number_of_events() -> None:
    trace = replace(make_trace(), output_matches=3)

    assert header_attributes(trace) == {
        "rotoscope.trace.trace_id": "0000000000000001",
        "rotoscope.trace.campaign": "00000000000000aa",
        "rotoscope.trace.token_source": "usage",
        "rotoscope.trace.output_matches": 3,
        "rotoscope.trace.events": 3,
    }
