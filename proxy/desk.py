"""The gateway's own paths, below `/_rotoscope/`: how it is, which runs are open, what agents tell, and the end of a run.

    GET  health          status, version and counts
    GET  runs            the open runs, by the names of their traces to be
    POST marks           what an agent tells of itself (`marks_desk.py`)
    POST runs/NAME/end   end a named run, write its trace and tell the name of its file; where agents of it are at work,
                         as they tell, it ends with the last of them, and at once when it is asked again

No answer holds a name that a client gave, or anything of a call.
"""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from rotoscope import __version__
from rotoscope.proxy.gateway import Desk, Gateway
from rotoscope.proxy.marks_desk import take_marks
from rotoscope.proxy.paths import CONTROL, Target
from rotoscope.proxy.relay import gateway_error
from rotoscope.proxy.runs import Runs

_END = re.compile(r"runs/([^/]+)/end")


def desk_of(gateway: Gateway, runs: Runs) -> Desk:
    """Return what answers the own paths of a gateway."""

    async def answer(request: web.BaseRequest, target: Target, port: str) -> web.Response:
        path = target.path.removeprefix(CONTROL).partition("?")[0]
        if path == "health" and request.method in ("GET", "HEAD"):
            return _json(health(gateway, runs))
        if path == "runs" and request.method == "GET":
            return _json({"runs": _open_runs(runs)})
        if path == "marks" and request.method == "POST":
            return await take_marks(request, runs, run=target.run, port=port)
        if (found := _END.fullmatch(path)) and request.method == "POST":
            return await _end(runs, unquote(found[1]))
        return gateway_error(
            404, "the gateway has no such path: it has health, runs, POST marks and POST runs/NAME/end"
        )

    return answer


def health(gateway: Gateway, runs: Runs) -> dict[str, Any]:
    """Return what the gateway tells of itself."""
    return {
        "status": "ok",
        "version": __version__,
        "runs": {"open": len(runs.open), "written": runs.written, "unwritten": runs.unwritten},
        "requests": gateway.requests,
        "in_flight": gateway.in_flight - 1,  # but for the one that asks
        "calls": gateway.calls,
        "failed": gateway.failed,
        "marks": runs.marks,
        "unrecorded": gateway.requests - gateway.calls,
        "waiting": {"texts": gateway.waiting_texts, "prompts": gateway.waiting_prompts},
    }


def _open_runs(runs: Runs) -> list[dict[str, Any]]:
    now_s = time.monotonic()
    return [
        {
            "run": run.name,
            "calls": run.calls,
            "in_flight": run.in_flight,
            "idle_s": 0.0 if run.in_flight else round(now_s - run.last_s, 1),
        }
        for run in runs.open
    ]


async def _end(runs: Runs, name: str) -> web.Response:
    if runs.is_to_go_on(name):
        return _json({"trace": None, "calls": 0, "failed": False, "at_work": True}, status=202)
    finished = await runs.end(name)
    if finished is None:
        return gateway_error(404, "no run of this name is open")
    trace = finished.path.name if finished.path else None
    calls = len(list(finished.trace.calls())) if finished.trace else 0
    return _json({"trace": trace, "calls": calls, "failed": bool(finished.trouble)})


def _json(content: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")
