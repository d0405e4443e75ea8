"""Recording without a gateway."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import openai
import pytest
from aiohttp import web
from forked_programs import run_forked
from loopback import CHAT, STREAMED, WHOLE, chat_answer, chat_chunk, sse, usage_chunk
from sdk_worlds import recorded_alone, serving_from_a_thread, traces_in

from rotoscope import current_run, trace_agent
from rotoscope.recorder.token_counters import Tokenizer
from rotoscope.sdk import account, kept_here
from rotoscope.sdk.alone import Alone
from rotoscope.sdk.keepers import RunAlone
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.uplinks import KeptElsewhere, Uplink
from rotoscope.traces.journal_files import read_journal


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer chat completions; other paths get the same."""
    body = await request.json()
    if not body.get("stream"):
        return web.json_response(chat_answer())
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse(chat_chunk({"content": "do"}), chat_chunk({"content": "ne"}), chat_chunk({}, "stop")))
    if body.get("stream_options"):
        await response.write(sse(usage_chunk()))
    await response.write(sse("[DONE]"))
    return response


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving_from_a_thread(answer) as origin:
        yield origin


@trace_agent
def agent(origin: str) -> list[str]:
    """Ask twice, the second time for a stream; return what was said."""
    with openai.OpenAI(base_url=f"{origin}/v1", api_key="secret", max_retries=0) as client:
        whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True)
        chunks = list(stream)
    assert all(chunk.usage is None for chunk in chunks)
    return [str(whole.choices[0].message.content), "".join(x.choices[0].delta.content or "" for x in chunks)]


def test_a_run_is_a_trace_of_what_the_agent_and_its_server_said(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        assert agent(origin) == ["done", "done"]
        traces = traces_in(tmp_path)  # written when the agent has returned

    assert [[call.completion_tokens for call in trace.calls()] for trace in traces] == [[5, 5]]
    assert [path.suffixes for path in tmp_path.iterdir()] == [[".trace", ".json"]]


def test_runs_are_a_trace_each_and_share_a_campaign(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        agent(origin)
        agent(origin)

    first, second = traces_in(tmp_path)
    assert first.campaign == second.campaign


def test_nothing_is_kept_of_a_call_that_is_over(tmp_path: Path, origin: str) -> None:
    @trace_agent
    def asks(alone: Alone) -> list[int]:
        httpx2.post(origin + CHAT, json=WHOLE)
        return [len(kept._calls) for kept in alone._open]

    with recorded_alone(tmp_path) as alone:
        assert asks(alone) == [0]


def test_a_run_ends_once_however_often_it_is_ended(
    tmp_path: Path, origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    @trace_agent
    def asks(alone: Alone) -> RunAlone:
        httpx2.post(origin + CHAT, json=WHOLE)
        (run,) = alone._open.values()
        return run

    with recorded_alone(tmp_path) as alone:
        asks(alone).end()

    assert caplog.messages == []
    assert len(traces_in(tmp_path)) == 1


def test_what_another_process_told_before_a_run_ended_is_in_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    with recorded_alone(tmp_path) as alone:
        run = alone.begin_run()
        assert alone._downlinks is not None
        monkeypatch.setattr(alone._downlinks, "_keeper_of", lambda name: may_go_on.wait(2) and alone._keeper_of(name))
        uplink = Uplink(alone._downlinks.address)
        call = KeptElsewhere(uplink, run.name).call(
            CHAT, json.dumps(WHOLE).encode(), headers={}, at_s=1.0, asks_usage=False
        )
        assert call is not None
        call.response(200, "application/json", 2.0)
        call.chunk(json.dumps(chat_answer()).encode(), 2.0)
        call.end(3.0)
        threading.Timer(0.02, may_go_on.set).start()
        run.end()
        uplink.begin_anew()

    assert calls_in(tmp_path) == [1]


def test_nothing_begins_behind_the_end(tmp_path: Path) -> None:
    alone = Alone(tmp_path)
    alone.close()

    assert alone.hear(Request("POST", "http://server" + CHAT, {}, json.dumps(WHOLE).encode())) is None
    alone.begin_run().end()
    assert [*tmp_path.iterdir()] == []


def test_calls_that_come_after_their_run_has_ended_are_told(
    tmp_path: Path, origin: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_here, "lateness", kept_here._Lateness())
    monkeypatch.setattr(account, "_numbers", {})

    @trace_agent
    def returns_what_goes_on() -> Callable[[], httpx2.Response]:
        httpx2.post(origin + CHAT, json=WHOLE)
        run = current_run()
        assert run is not None
        return run.wrap(lambda: httpx2.post(origin + CHAT, json=WHOLE))

    with recorded_alone(tmp_path):
        goes_on = returns_what_goes_on()
        assert [goes_on().status_code for _ in range(2)] == [200, 200]

    assert [len(list(trace.calls())) for trace in traces_in(tmp_path)] == [1]
    assert sum("had returned before it was made" in message for message in caplog.messages) == 1
    assert account.untold()["calls"] == 2


def test_calls_outside_of_every_agent_are_one_run(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        httpx2.post(origin + CHAT, json=WHOLE)
        agent(origin)
        httpx2.post(origin + CHAT, json=WHOLE)

    assert sorted(len(list(trace.calls())) for trace in traces_in(tmp_path)) == [2, 2]


@pytest.mark.parametrize("path", ["/v1/models", "/channels/1", "/upload"])
def test_requests_that_are_no_calls_leave_nothing(tmp_path: Path, origin: str, path: str) -> None:
    folder = tmp_path / "results"
    with recorded_alone(folder):
        httpx2.post(origin + path, json=WHOLE)
        httpx2.get(origin + CHAT)

    assert not folder.exists()


def test_a_request_to_a_path_like_that_of_calls_which_is_none_leaves_no_trace(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        httpx2.post(origin + "/channels/1/messages", json={"content": "secret"})

    assert list(tmp_path.iterdir()) == []


def test_what_was_recorded_is_told_in_a_line(tmp_path: Path, origin: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rotoscope")
    with recorded_alone(tmp_path):
        agent(origin)

    assert [line.partition(":")[0] for line in caplog.messages if "tokens" in line] == [
        "2 calls, 40 prompt tokens, 10 completion tokens"
    ]
    assert "secret" not in caplog.text


def test_traces_that_are_not_in_their_folder_are_told_once_and_counted(
    tmp_path: Path, origin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(account, "_numbers", {})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(logging.getLogger("rotoscope"), "propagate", False)
    folder = tmp_path / "results"
    folder.write_text("no folder")
    with recorded_alone(folder):
        agent(origin)
        agent(origin)

    assert len([*tmp_path.glob("rotoscope-*/run.trace.json")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rotoscope: 2 calls, ")
    assert "the trace is not in its folder: " in line
    assert account.untold() == {"traces": 2}


def test_nothing_that_anyone_said_is_kept_or_logged(
    tmp_path: Path, origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rotoscope")
    kanari = "kanari0123456789"
    said = {"model": kanari, "messages": [{"role": "user", "content": kanari}], "user": kanari}
    headers = {"authorization": kanari, "x-session-id": kanari}
    kept: list[bytes] = []

    @trace_agent(name=kanari)
    def ask() -> None:
        for path in (f"{CHAT}?{kanari}", "/v1/messages", f"/{kanari}/messages/batches", f"/{kanari}"):
            for body in (said, {"content": kanari}):
                httpx2.post(origin + path, json=body, headers=headers)
        kept.extend(path.read_bytes() for path in tmp_path.iterdir())

    with recorded_alone(tmp_path, tokenizer=Tokenizer("o200k_base")):
        ask()
    kept.extend(path.read_bytes() for path in tmp_path.iterdir())

    assert len(kept) == 2
    assert kanari.encode() not in b"".join(kept)
    assert kanari not in caplog.text


def test_nothing_of_ours_is_told_to_the_server(tmp_path: Path) -> None:
    async def tell(request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [], "told": [name.lower() for name in request.headers]})

    @trace_agent
    def ask(origin: str) -> list[str]:
        told: list[str] = httpx2.post(origin + CHAT, json=STREAMED).json()["told"]
        return told

    with serving_from_a_thread(tell) as origin, recorded_alone(tmp_path):
        told = ask(origin)

    assert [name for name in told if "rotoscope" in name or "trace" in name] == []


def test_agents_that_run_at_once_are_runs_of_their_own_whose_traces_are_written_beside_them(
    tmp_path: Path, origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rotoscope")

    @trace_agent
    async def ask(times: int) -> None:
        async with httpx2.AsyncClient() as client:
            for _ in range(times):
                await client.post(origin + CHAT, json=WHOLE)

    async def main() -> None:
        await asyncio.gather(*(ask(times) for times in (1, 2, 3)))

    with recorded_alone(tmp_path) as recording:
        asyncio.run(main())
        recording.flush(60.0)  # the end of recording would write itself what is not written by then

    assert sorted(len(list(trace.calls())) for trace in traces_in(tmp_path)) == [1, 2, 3]
    assert {record.threadName for record in caplog.records if "tokens" in record.message} == {"rotoscope-writing"}


SCRIPT = """
import logging, os, signal, sys, threading
import httpx2, rotoscope

origin, folder = sys.argv[1:]
rotoscope.instrument(folder=folder, tokenizer="none")

def ask():
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    assert httpx2.post(origin + "/v1/chat/completions", json=body).status_code == 200

@rotoscope.trace_agent
def agent():
    ask()
    ask()
"""


def ran(folder: Path, origin: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code that records itself, in a process of its own."""
    return run_forked(SCRIPT + code, origin, str(folder))


def calls_in(folder: Path) -> list[int]:
    """Return how many calls each trace has."""
    assert list(folder.glob("*.journal.jsonl")) == []
    return [len(list(trace.calls())) for trace in traces_in(folder)]


@pytest.mark.parametrize(
    ("ending", "status"),
    [("raise KeyError", 1), ("threading.Thread(target=ask).start()\nsys.exit(3)", 3)],
)
def test_what_is_open_is_written_as_the_process_ends(tmp_path: Path, origin: str, ending: str, status: int) -> None:
    done = ran(tmp_path, origin, f"ask()\nagent()\n{ending}")

    assert done.returncode == status
    assert calls_in(tmp_path) == [2 if "Thread" in ending else 1, 2]


def test_who_leaves_in_the_midst_of_an_agent_has_its_trace(tmp_path: Path, origin: str) -> None:
    done = ran(tmp_path, origin, "@rotoscope.trace_agent\ndef leave():\n    ask()\n    sys.exit()\nleave()")

    assert (done.returncode, done.stderr) == (0, "")
    assert calls_in(tmp_path) == [1]


def test_who_is_killed_leaves_a_journal(tmp_path: Path, origin: str) -> None:
    done = ran(tmp_path, origin, "ask()\nask()\nos.kill(os.getpid(), signal.SIGTERM)")
    journal = read_journal(next(tmp_path.iterdir()))

    assert done.returncode == -signal.SIGTERM
    assert sum(type(record).__name__ == "CallEnded" for record in journal.records) == 2


LEFT = """
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
client = httpx2.Client()
left = client.send(client.build_request("POST", origin + "/v1/chat/completions", json=body), stream=True)
"""


def test_a_stream_that_nobody_closes_is_cancelled_as_the_process_ends(tmp_path: Path, origin: str) -> None:
    assert ran(tmp_path, origin, LEFT).returncode == 0

    (trace,) = traces_in(tmp_path)
    assert [call.finish_reason for call in trace.calls()] == ["cancelled"]


def test_a_client_that_goes_on_behind_its_agent_still_gets_no_more_than_it_asked_for(
    tmp_path: Path, origin: str
) -> None:
    @trace_agent
    def leave(client: httpx2.Client) -> httpx2.Response:
        return client.send(client.build_request("POST", origin + CHAT, json=STREAMED), stream=True)

    with recorded_alone(tmp_path), httpx2.Client() as client:
        assert b"usage" not in leave(client).read()


FORKED = """
@rotoscope.trace_agent
def parent():
    ask()
    for leave in sys.exit, os._exit:
        if not os.fork():
            ask()
            agent()
            leave(0)
        os.wait()
        ask()
parent()
"""


def test_a_forked_process_takes_part_in_the_run_of_its_parent_however_it_ends(tmp_path: Path, origin: str) -> None:
    assert ran(tmp_path, origin, FORKED).stderr == ""
    assert calls_in(tmp_path) == [9]


FORKED_IN_THE_MIDST = """
from rotoscope.sdk import recordings
kept = next(iter(recordings.current_recording()._open)) if ask() is None else None
is_in, is_over = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: kept.take(lambda: is_in.set() or is_over.wait(), otherwise=None))
thread.start()
is_in.wait()
if not (child := os.fork()):
    ask()
    os._exit(7)
status = os.waitpid(child, 0)[1]
is_over.set()
thread.join()
ask()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_fork_while_another_thread_is_at_it_waits_for_nobody(tmp_path: Path, origin: str) -> None:
    assert ran(tmp_path, origin, FORKED_IN_THE_MIDST).returncode == 7
    assert calls_in(tmp_path) == [3]


LED = """
import subprocess
led = '''
from rotoscope import trace_agent
import httpx2, sys
body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
httpx2.post(sys.argv[1] + "/v1/chat/completions", json=body)
'''
subprocess.run([sys.executable, "-c", led, origin], check=True)
"""


def test_calls_of_a_process_that_is_led_here_are_recorded_though_no_agent_runs_there(
    tmp_path: Path, origin: str
) -> None:
    assert ran(tmp_path, origin, LED).stderr == ""
    assert calls_in(tmp_path) == [1]


FORKED_TWICE = """
ask()
(kept,) = rotoscope.sdk.recordings.current_recording()._open
if not os.fork():
    assert kept._recorded.journal.closed
    ask()
    uplink = rotoscope.sdk.recordings.current_recording()._elsewhere.uplink
    assert uplink._socket is not None
    if not os.fork():
        os._exit(7 if uplink._socket is None else 8)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_process_that_is_forked_off_a_forked_one_shares_no_connection_with_it(tmp_path: Path, origin: str) -> None:
    assert ran(tmp_path, origin, FORKED_TWICE).returncode == 7


def test_a_trace_is_written_at_once_where_no_thread_can_be_had(
    tmp_path: Path, origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    @trace_agent
    async def asks() -> None:
        httpx2.post(origin + CHAT, json=WHOLE)
        monkeypatch.setattr(threading.Thread, "start", no_thread)

    with recorded_alone(tmp_path):
        asyncio.run(asks())
        assert len(traces_in(tmp_path)) == 1
        monkeypatch.undo()


def test_without_a_thread_to_listen_what_runs_here_is_recorded(
    tmp_path: Path, origin: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", no_thread)
        alone = Alone(tmp_path)
    alone.close()

    assert [message for message in caplog.messages if "processes that are begun here are not recorded" in message]


def test_a_client_is_imported_after_recording_has_begun(tmp_path: Path, origin: str) -> None:
    begun = SCRIPT.replace("import httpx2, rotoscope", "import rotoscope\nassert 'httpx2' not in sys.modules")
    subprocess.run([sys.executable, "-c", f"{begun}\nimport httpx2\nask()", origin, str(tmp_path)], check=True)

    assert begun != SCRIPT
    assert calls_in(tmp_path) == [1]


def test_texts_are_counted_where_the_server_does_not_tell(tmp_path: Path) -> None:
    async def say(request: web.Request) -> web.StreamResponse:
        told = chat_answer("one two three")
        del told["usage"]
        return web.json_response(told)

    with serving_from_a_thread(say) as origin:
        for tokenizer in (None, Tokenizer("o200k_base")):
            with recorded_alone(tmp_path, tokenizer=tokenizer):
                trace_agent(httpx2.post)(origin + CHAT, json=WHOLE)

    assert [trace.token_source for trace in traces_in(tmp_path)] == ["estimate", "tokenizer:o200k_base"]
    assert [call.completion_tokens for call in traces_in(tmp_path)[1].calls()] == [3]
