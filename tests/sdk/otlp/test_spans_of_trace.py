from __future__ import annotations

from dataclasses import replace

from rotoscope.sdk.otlp.spans_of_trace import Span, spans_of
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces.model import (
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    TraceEvent,
    Wait,
)

MS = 1_000_000


def tree(spans: list[Span]) -> list[tuple[str, str | None]]:
    """Return each span's name with that of its parent."""
    names = {span.span_id: span.name for span in spans}
    return [(span.name, names[span.parent_id] if span.parent_id else None) for span in spans]


def only(event: TraceEvent) -> Span:
    [_, span] = spans_of(trace_of(event))
    return span


def test_each_thing_that_took_time_is_below_the_agent_of_its_branch() -> None:
    spans = spans_of(
        trace_of(
            make_call(0, domain=1),
            ToolCall(tool_call_id="t0", tool_name="tool3", duration_ms=1.0),
            ParallelStart(region=0, num_branches=3),
            make_call(1, branch=(0, 2)),
            Embedding(branch=(0, 0), prompt_tokens=7),
            ParallelStart(branch=(0, 2), region=1, num_branches=1),
            Wait(branch=(1, 0), kind="human", duration_ms=1.0),
            ParallelEnd(region=0),
        )
    )

    assert tree(spans) == [
        ("invoke_agent root", None),
        ("chat domain1", "invoke_agent root"),
        ("execute_tool tool3", "invoke_agent root"),
        ("parallel", "invoke_agent root"),
        ("invoke_agent 0.2", "parallel"),
        ("chat domain0", "invoke_agent 0.2"),
        ("invoke_agent 0.0", "parallel"),
        ("embeddings", "invoke_agent 0.0"),
        ("parallel", "invoke_agent 0.2"),
        ("invoke_agent 1.0", "parallel"),
        ("wait human", "invoke_agent 1.0"),
    ]


def test_requests_are_of_clients_and_everything_else_is_internal() -> None:
    kinds = {span.name: span.kind for span in spans_of(make_trace(turns=2))}

    assert kinds == {"invoke_agent root": "internal", "chat domain0": "client", "execute_tool tool0": "internal"}
    assert only(Embedding(prompt_tokens=1)).kind == "client"


def test_messages_are_events_of_the_call_that_they_were_sent_with() -> None:
    before = Message(conversation_id=0, role="user", message_index=0, tokens=5)
    after = Message(conversation_id=0, role="tool", message_index=2, tokens=6)

    root, call = spans_of(trace_of(before, make_call(at_ms=2.0), after, DropKvCache()))

    assert [(event.name, event.at_ns) for event in call.events] == [("rotoscope.message", 2 * MS)]
    assert call.events[0].attributes["rotoscope.tokens"] == 5
    assert [event.name for event in root.events] == ["rotoscope.message", "rotoscope.drop_kv_cache"]


def test_a_join_is_at_the_end_of_its_region() -> None:
    region = spans_of(
        trace_of(
            ParallelStart(region=0, num_branches=1),
            make_call(0, branch=(0, 0), at_ms=3.0, duration_ms=4.0),
            ParallelEnd(region=0),
        )
    )[1]

    assert (region.start_ns, region.end_ns) == (3 * MS, 7 * MS)
    assert [(event.name, event.at_ns) for event in region.events] == [("rotoscope.parallel_end", 7 * MS)]


def test_a_call_that_came_to_no_end_is_an_error() -> None:
    errors = {
        reason: only(make_call(finish_reason=reason)).is_error
        for reason in ("stop", "length", "tool_calls", "content_filter", "unknown", "cancelled", "error", "lost")
    }

    assert [reason for reason, is_error in errors.items() if is_error] == ["cancelled", "error", "lost"]


def test_the_shared_prefixes_are_events_of_the_root() -> None:
    [event] = spans_of(make_trace(system=40))[0].events

    assert event.name == "rotoscope.shared_prefix"
    assert event.attributes == {
        "rotoscope.shared_prefix.id": "s0",
        "rotoscope.shared_prefix.kind": "system",
        "rotoscope.shared_prefix.tokens": 40,
    }


def test_ids_follow_from_the_id_of_the_trace() -> None:
    trace = make_trace(turns=2)
    other = replace(trace, trace_id="0000000000000002")

    assert spans_of(trace) == spans_of(trace)
    assert ids(spans_of(trace)).isdisjoint(ids(spans_of(other)))
    assert ids(spans_of(trace)).isdisjoint(ids(spans_of(trace, salt="1")))


def ids(spans: list[Span]) -> set[bytes]:
    return {span.span_id for span in spans} | {spans[0].trace_id}


def test_regions_that_are_wide_and_empty_cost_nothing() -> None:
    spans = spans_of(trace_of(ParallelStart(region=0, num_branches=2**31 - 1)))

    assert [span.name for span in spans] == ["invoke_agent root", "parallel"]
