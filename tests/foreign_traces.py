"""Builders of foreign trace files: each states only what matters to a test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def trtllm(*events: Json, trace_id: object = "a run", **more: Any) -> bytes:
    """A TensorRT-LLM trace."""
    return json.dumps({"trace_id": trace_id, "events": events, **more}).encode()


def message(role: str, index: int | None, tokens: int | None, *, path: Sequence[int] = (), **more: Any) -> Json:
    fields = {"event_type": "message", "branch_path": list(path), "conversation_id": 0, "role": role}
    return _there({**fields, "message_index": index, "tokens": tokens, **more})


def call(index: int | None, prompt: int | None, completion: int | None = 10, reasoning: int = 0, **more: Any) -> Json:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "reasoning_tokens": reasoning}
    return _there(message("assistant", index, None, **{**counts, **more}))


def tool(name: str = "search", duration_ms: object = 5.0, *, path: Sequence[int] = (), **more: Any) -> Json:
    fields = {"event_type": "tool_call", "branch_path": list(path), "tool_call_id": f"call_{name}"}
    return {**fields, "tool_name": name, "duration_ms": duration_ms, **more}


def fork(branches: int, *path: int) -> Json:
    return {"event_type": "parallel_start", "branch_path": list(path), "num_branches": branches}


def join(*path: int) -> Json:
    return {"event_type": "parallel_end", "branch_path": list(path)}


def drop(*path: int) -> Json:
    return {"event_type": "drop_kv_cache", "branch_path": list(path)}


def weka(*requests: Json, block_size: int = 64, **more: Any) -> bytes:
    """A Weka trace."""
    header = {"id": "a session", "models": ["m"], "block_size": block_size, "hash_id_scope": "local"}
    return json.dumps({**header, "requests": requests, **more}).encode()


def request(t: float, block_ids: Sequence[int], *, tail: int = 0, out: int = 10, **more: Any) -> Json:
    """A request of whole blocks of 64 tokens and a tail that has no id."""
    fields = {"t": t, "type": "n", "model": "m", "in": 64 * len(block_ids) + tail, "out": out}
    return {**fields, "hash_ids": list(block_ids), "input_types": ["text"], "stop": "end_turn", **more}


def agent(t: float, *requests: Json, duration_ms: float | None = None, **more: Any) -> Json:
    """A sub-agent entry."""
    fields = {"t": t, "type": "subagent", "agent_id": "a", "status": "completed", "duration_ms": duration_ms}
    return {**fields, "requests": requests, **more}


def _there(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value is not None}
