"""Processes that an agent begins take part in its run, however they are begun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from loopback import chat_answer, chat_chunk, sse, usage_chunk
from sdk_worlds import serving_from_a_thread, traces_in, without_times

from rotoscope.traces.model import ToolCall, Trace

PROGRAM = """
import multiprocessing, os, subprocess, sys
import httpx2
from rotoscope import current_run, instrument, trace_agent, trace_tool

ORIGIN = os.environ["ORIGIN"]

def ask(**more):
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **more}
    return httpx2.post(ORIGIN + "/v1/chat/completions", json=body).content

@trace_tool
def look():
    pass

@trace_agent
def child():
    ask()
    look()
    assert b"usage" not in ask(stream=True)

def begin(how):
    if how in ("fork", "spawn"):
        process = multiprocessing.get_context(how).Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
    elif how == "subprocess":
        subprocess.run([sys.executable, __file__], check=True)
    else:
        child()

@trace_agent
def parent(*hows):
    ask()
    for how in hows:
        if how == "lead":
            os.environ |= current_run().environment()
        else:
            begin(how)
    ask()

if __name__ == "__main__":
    if len(sys.argv) == 1:
        child()
    else:
        instrument(folder=sys.argv[1], tokenizer="none")
        parent(*sys.argv[2:])
"""


async def answer(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    if not body.get("stream"):
        return web.json_response(chat_answer())
    usage = [usage_chunk()] if body.get("stream_options") else []
    events: list[Any] = [chat_chunk({"content": "done"}, "stop"), *usage, "[DONE]"]
    return web.Response(body=sse(*events), content_type="text/event-stream")


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving_from_a_thread(answer) as origin:
        yield origin


def run(folder: Path, origin: str, *hows: str) -> list[Trace]:
    """Return the traces of a run, where no journal is left."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(folder / "results"), *hows]
    done = subprocess.run(command, env={**os.environ, "ORIGIN": origin}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((folder / "results").glob("*.journal.jsonl")) == []
    return traces_in(folder / "results")


def test_what_agents_of_other_processes_do_is_recorded_as_in_one(tmp_path: Path, origin: str) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()

    (in_one,) = run(one, origin, "here", "here", "here")
    (in_others,) = run(other, origin, "fork", "lead", "spawn", "subprocess")

    assert without_times(in_others, tmp_path) == without_times(in_one, tmp_path)
    assert [call.completion_tokens for call in in_one.calls()] == [5] * 8
    assert sum(isinstance(event, ToolCall) for event in in_one.events) == 3


def test_a_process_that_is_not_led_is_beside_all_agents(tmp_path: Path, origin: str) -> None:
    assert sorted(len(list(trace.calls())) for trace in run(tmp_path, origin, "spawn")) == [2, 2]
