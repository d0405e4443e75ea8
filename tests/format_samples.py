"""Small files of every trace format, made by hand: what is damaged to see how readers take it."""

from __future__ import annotations

from foreign_traces import agent, call, fork, join, message, request, tool, trtllm, weka

from rotoscope.testing import make_trace
from rotoscope.traces import dumps

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
    ],
}
"""By the name of the format."""
