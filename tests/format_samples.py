"""Small files of every trace format, made by hand: what is damaged to see how readers take it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from foreign_events import (
    dynamo,
    dynamo_body,
    dynamo_request,
    dynamo_tool,
    tracelab,
    tracelab_csv,
    tracelab_round,
    tracelab_tool,
    vcr,
    vcr_record,
)
from foreign_traces import agent, call, fork, join, message, request, tool, trtllm, weka
from otlp_spans import samples as otlp_samples

from rotoscope.testing import make_trace
from rotoscope.traces import dumps


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(length: int, *ids: int, **more: Any) -> dict[str, Any]:
    return {"input_length": length, "output_length": 7, "hash_ids": ids, **more}


MOONCAKE = [
    row(700, 1, 2, timestamp=0),
    row(1500, 1, 3, 4, timestamp=3000),
    row(1600, 1, 3, 5, 6, timestamp=9000),
    row(700, 1, 2, timestamp=9000),
]
SESSIONS = [
    row(700, 1, 2, session_id="a", timestamp=0),
    row(600, 1, 7, session_id="b", timestamp=10),
    row(1500, 1, 3, 4, session_id="a", delay=250.5),
]
DELTA = [
    row(700, 1, 2, session_id="a.0", is_delta=True, timestamp=0),
    row(600, 1, 7, session_id="b.0", is_delta=True, timestamp=10),
    row(500, 8, session_id="a.0", is_delta=True, delay=250.5),
]
AGENTIC = [
    row(700, 1, 2, timestamp=0, request_id="r0", session_id="a", wait_for=[], branches=["r1"]),
    row(600, 1, 7, delay=5, request_id="r1", session_id="b", wait_for=["r0"], branches=[], prefix_reset=True),
    row(
        1500,
        *(1, 3, 4),
        request_id="r2",
        session_id="a",
        wait_for=["r0", "r1"],
        branches=[],
        delay=3.0,
        tool_wait_ms=40.0,
        tool_events=[{"tool_class": "shell", "started_at_unix_ms": 1790000000000, "duration_ms": 40.0}],
    ),
]
V2 = {
    "schema": "dynamo.agentic_mooncake",
    "version": 2,
    "block_size": 512,
    "hash_id_scope": "local",
    "source": {"format": "weka", "digest": "d"},
}


def edge(request: str, delay_ms: float, trigger: str = "completion", relation: str = "sequence") -> dict[str, Any]:
    return {"request_id": request, "trigger": trigger, "delay_ms": delay_ms, "relation": relation}


def played(request: str, session: str, at_ms: float, length: int, *ids: int, **more: Any) -> dict[str, Any]:
    """A row of agentic Mooncake version 2."""
    names = {"request_id": request, "play_id": "p", "session_id": session, "model": "m", "not_before_ms": at_ms}
    return {**names, **row(length, *ids), **more}


PLAYS = [
    V2,
    played("r0", "a", 0, 700, 1, 2, recorded_api_time_ms=10.0, source_play_ordinal=0),
    played("r2", "a", 100.5, 1500, 1, 3, 4, dependencies=[edge("r0", 90.5), edge("r1", 1, relation="join")]),
    played("r1", "b", 5, 600, 1, 7, dependencies=[edge("r0", 5, "dispatch", "spawn")], recorded_api_time_ms=90.0),
    played("r3", "c", 0, 100, 9, play_id="q", source_play_ordinal=1, priority=1, dependencies=[]),
    played("r4", "d", 0, 100, 8, play_id="q", model="n", dependencies=[edge("r3", 7, relation="replay_barrier")]),
]
BAILIAN = [
    {**row(40, 1, 2, 3, timestamp=0.5), "chat_id": 1, "parent_chat_id": -1, "turn": 1, "type": "text"},
    {**row(70, 1, 2, 4, 5, 6, timestamp=2.5), "chat_id": 2, "parent_chat_id": 1, "turn": 2, "type": "text"},
    {**row(20, 9, 8, timestamp=2.5), "chat_id": 3, "parent_chat_id": -1, "turn": 1, "type": "search"},
]

SAMPLES: dict[str, list[bytes]] = {
    "rotoscope": [dumps(make_trace(turns=3)), dumps(make_trace(system=0))],
    "trtllm": [
        trtllm(
            message("system", 0, 20, system_prompt_id="s"),
            message("user", 1, 6),
            call(2, 30, 5, 2, tool_calls=["ls"]),
            tool("ls"),
            fork(2),
            message("user", 3, 4, path=[0]),
            call(4, 40, path=[0]),
            message("user", 1, 4, path=[1]),
            call(2, 25, path=[1]),
            join(),
            message("assistant", 3, None),
            call(4, 60),
        ),
        trtllm(message("user", 0, 6), call(1, 6), tool()),
    ],
    "weka": [
        weka(
            request(0, [1, 2], tail=3, api_time=2.0, stop="tool_use"),
            agent(9, request(0, [5], think_time=0.0), request(3, [5, 6], model="n"), duration_ms=6500),
            agent(9.5, request(0, [5], api_time=1.5), duration_ms=6000),
            request(20, [1, 2, 3], think_time=18.0, ttft=0.5, input_types=["tool_result"]),
            request(21, [1, 2, 9], out=0),
        ),
        weka(request(0, [1], api_time=1.0), agent(3, request(0, [2])), request(9, [1, 2])),
        weka(request(0, [1])) + b"\n" + weka(request(0, [1, 2]), id="b", hash_id_scope="global") + b"\n",
    ],
    "mooncake": [lines(MOONCAKE)],
    "mooncake-sessions": [lines(SESSIONS)],
    "mooncake-delta": [lines(DELTA)],
    "mooncake-agentic": [lines(AGENTIC)],
    "mooncake-agentic-v2": [lines(PLAYS)],
    "bailian": [lines(BAILIAN)],
    "dynamo": [
        dynamo(
            dynamo_request("a", 1000, [1, 2], session="A", asked=[("t", "Task"), ("u", "ls")]),
            dynamo_tool("t", "A", 1100, 1100, kind="tool_start", name="Task"),
            dynamo_tool("u", "A", 1110, 1150, name="ls"),
            dynamo_request("b", 1200, [1, 7], tail=3, session="B", parent="A", ttft_ms=5.0),
            dynamo_request("c", 1310, [1, 7, 8], session="B", parent="A"),
            dynamo_tool("t", "A", None, 1500, name="Task", duration_ms=390.5),
            dynamo_request("d", 1600, [1, 2, 3], session="A"),
            dynamo_request("e", 1700, [1]),
            dynamo_body("a", 1650, "text"),
        ),
        dynamo(dynamo_request("a", 0, [1, 2]), dynamo_request("b", 900, [1, 2, 3], tail=1, cached_tokens=8)),
    ],
    "tracelab": [
        tracelab(
            tracelab_round(
                "A", 0, 0, 2, 100, 60, tools=[tracelab_tool("Task", 2.5, 30)], outputs=["reasoning", "tool_call"]
            ),
            tracelab_round(
                "B", 0, 3, 4, 80, 60, tools=[tracelab_tool("Bash", 4, 5), tracelab_tool("Read", None, None)]
            ),
            tracelab_round("B", 1, 6, 9, 120, 80, inputs=["tool_result"], reasoning_output_tokens=4),
            tracelab_round("A", 1, 31, 40, 150, 110, inputs=["tool_result"]),
            tracelab_round("A", 2, None, None, 160, 20, model="other"),
            tracelab_round("C", 0, 10, 10, 50, 0, out=None, provider="codex"),
        ),
        tracelab(
            tracelab_round("A", 0, 0, 1, 5, 5),
            tracelab_round("A", 1, 2, 3, 9, 5, tools=[tracelab_tool("x", None, None)]),
        ),
    ],
    "tracelab-csv": [
        tracelab_csv("0,0,0,0,512,64,100", "0,0,1,576,128,64,100.5", "1,200,0,300,400,48,0", "0,0,2,900,128,64,0"),
        tracelab_csv(
            "a,9,7,0,1,0.25,3", header="id,input_len,output_len,arrival_time,round_idx,tool_wait_after_ms,prefix_len"
        ),
    ],
    "vcr": [
        vcr(
            vcr_record(0, [1, 2], tail=1),
            vcr_record(10.5, [1, 7], mm_hashes=["i"], cached_tokens=4),
            vcr_record(100, [1, 2, 3], output_token_ids=[5, 6, 7]),
            vcr_record(110, [1, 7, 8], tail=2, mm_hashes=["j"], itl_ms=None, itl_summary={"mean_ms": 3.5, "count": 2}),
            vcr_record(5, None, tail=9),
        ),
        vcr(vcr_record(None, None, tail=9), vcr_record(None, None, tail=9, out=1), block_size=None),
    ],
    "otlp": otlp_samples(),
}
"""By the name of the format."""
