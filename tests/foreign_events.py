"""Builders of foreign files that hold a record a line; each states only what matters to a test.

They are made by hand from the schemas that the readers name, not captured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from foreign_traces import Json

BLOCK = 4


def lines(values: Iterable[object]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def dynamo(*records: Json) -> bytes:
    """A Dynamo request trace, each record as the file sink writes it."""
    return lines({"timestamp": 5, "event": record} for record in records)


def dynamo_request(
    id_: str,
    at_ms: int,
    hashes: Sequence[int] | None = (1,),
    *,
    tail: int = 0,
    out: int | None = 5,
    total_ms: float | None = 100.0,
    session: str | None = None,
    parent: str | None = None,
    asked: Sequence[tuple[str | None, str | None]] = (),
    context: Json | None = None,
    **more: Any,
) -> Json:
    """A request of blocks of four tokens; with a tail its last block has only so many."""
    request: Json = {
        "request_id": id_,
        "model": "a model",
        "output_tokens": out,
        "request_received_ms": at_ms,
        "total_time_ms": total_ms,
        "finish_reason_metadata": {
            "finish_reason": "tool_calls" if asked else "stop",
            "tool_calls": [
                {"choice_index": 0, "tool_call_index": index, "id": tool_id, "name": name}
                for index, (tool_id, name) in enumerate(asked)
            ],
        },
    }
    if hashes is not None:
        length = BLOCK * len(hashes) - (BLOCK - tail if tail else 0)
        request["replay"] = {
            "trace_block_size": BLOCK,
            "input_length": length,
            "input_sequence_hashes": list(hashes),
        }
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": at_ms + round(total_ms or 0),
        "event_source": "dynamo",
        **(
            {"agent_context": context or {"session_id": session, "parent_session_id": parent}}
            if session or context
            else {}
        ),
        "request": {**request, **more},
    }


def dynamo_tool(
    id_: str,
    session: str,
    start_ms: int | None,
    end_ms: int,
    *,
    name: str = "search",
    kind: str = "tool_end",
    **more: Any,
) -> Json:
    """A record of a tool; without a start its own time is all it says."""
    tool = {"tool_call_id": id_, "tool_class": name, "started_at_unix_ms": start_ms}
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": kind,
        "event_time_unix_ms": end_ms,
        "event_source": "harness",
        "agent_context": {"session_id": session},
        "tool": {**tool, **more},
    }


def dynamo_body(id_: str, at_ms: int, text: str) -> Json:
    """A record that holds what was said."""
    said = {"messages": [{"role": "user", "content": text}]}
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_payload",
        "event_time_unix_ms": at_ms,
        "payload": {
            "request_id": id_,
            "endpoint": "openai.chat_completion",
            "model": "a model",
            "request": said,
            "http_request_headers": {"x-user": text},
            "payload_complete": True,
        },
    }


FIRST = datetime(2026, 6, 1, tzinfo=UTC)


def iso(at_s: float) -> str:
    """A time of a TraceLab file, in seconds from its first one."""
    return (FIRST + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def tracelab(*rounds: Json) -> bytes:
    """A TraceLab file."""
    return lines(rounds)


def tracelab_round(
    session: str,
    index: int,
    sent_s: float | None,
    ended_s: float | None,
    prompt: int,
    hit: int | None,
    *,
    out: int | None = 10,
    inputs: Sequence[str] = ("user_message",),
    outputs: Sequence[str] = ("text",),
    tools: Sequence[Json] = (),
    **more: Any,
) -> Json:
    """A round whose inputs came when it was sent, and whose outputs when it had ended."""
    events = [{"event_type": kind, "timestamp": iso(sent_s)} for kind in inputs if sent_s is not None]
    events += [{"event_type": kind, "timestamp": iso(ended_s)} for kind in outputs if ended_s is not None]
    return {
        "provider": "claude",
        "project": "a project",
        "session_id": session,
        "round_index": index,
        "round_id": f"{session} {index}",
        "model": "a model",
        "input_tokens_total": prompt,
        "prefix_tokens": hit,
        "newly_append_tokens": None if hit is None else prompt - hit,
        "output_tokens": out,
        "reasoning_output_tokens": None,
        "timing_events": events,
        "tools": list(tools),
        **more,
    }


def tracelab_tool(name: str, start_s: float | None, end_s: float | None, **more: Any) -> Json:
    """A tool of a round."""
    return {
        "tool_index": 0,
        "tool_name": name,
        "tool_call_id": "an id",
        "emitted_at": None if start_s is None else iso(start_s),
        "result_at": None if end_s is None else iso(end_s),
        "input_chars": 5,
        **more,
    }


CSV_HEADER = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms"


def tracelab_csv(*rows: str, header: str = CSV_HEADER) -> bytes:
    """A file of TraceLab's replayer."""
    return "".join(f"{row}\n" for row in (header, *rows)).encode()


def vcr(*records: Json, block_size: int | None = BLOCK) -> bytes:
    """A vllm-vcr trace; without a block size it has no meta line."""
    meta = [] if block_size is None else [{"meta": {"model": "a model", "source": "tap", "block_size": block_size}}]
    return lines([*meta, *records])


def vcr_record(
    arrival_ms: float | None, hashes: Sequence[int] | None, *, tail: int = 0, out: int = 3, **more: Any
) -> Json:
    """A request of whole blocks of four tokens and a tail that has no hash."""
    return {
        "prompt_tokens": BLOCK * len(hashes or ()) + tail,
        "cached_tokens": 0,
        "output_tokens": out,
        "ttft_ms": 20.0,
        "itl_ms": [5.0] * (out - 1),
        "concurrency": 1,
        "arrival_ms": arrival_ms,
        "block_hashes": hashes,
        "finish_reason": "stop",
        **more,
    }
