"""`rotoscope record` as a process: what the command, the person and the disk get."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web
from loopback import PATIENCE_S, Handler, chat_answer, chat_chunk, serving, sse, usage_chunk
from rotoscope_process import Ended, clean_environment, ended, rotoscope

from rotoscope.traces.canary import Canaries
from rotoscope.traces.reader import load

CLIENT = """
import json, os, sys, urllib.error, urllib.request
def call(body, path="/chat/completions", base=os.environ["OPENAI_BASE_URL"]):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
def refused(body):
    try:
        call(body, "/refused/chat/completions")
    except urllib.error.HTTPError as error:
        return error.code
def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return call(body)["choices"][0]["message"]["content"]
"""


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer any chat request, but refuse where the path says so."""
    if "refused" in request.path:
        return web.json_response({"error": {"message": "no"}}, status=401)
    if not request.path.endswith("/chat/completions"):
        return web.json_response({"data": []})
    await request.json()
    return web.json_response(chat_answer(prompt_tokens_details={"cached_tokens": 5}))


def record(folder: Path, *command: str, handler: Handler = answer, options: Sequence[str] = ()) -> Ended:
    """Record a command in front of a server that runs here."""

    async def run() -> Ended:
        async with (
            serving(handler) as origin,
            rotoscope("record", "--upstream", origin, "-o", str(folder), *options, "--", *command) as process,
        ):
            return await ended(process)

    return asyncio.run(run())


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", CLIENT + source, *arguments]


def test_trace_takes_the_next_number_and_is_all_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "run-0007.trace.json").write_text("mine")

    recorded = record(tmp_path, *python("print(ask('hello')); print(ask('again'))"))

    assert (recorded.status, recorded.out) == (0, "done\ndone\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0007.trace.json", "run-0008.trace.json"]
    assert (tmp_path / "run-0007.trace.json").read_text() == "mine"
    trace = load(tmp_path / "run-0008.trace.json")
    assert [(call.prompt_tokens, call.completion_tokens) for call in trace.calls()] == [(20, 5), (20, 5)]


def test_end_tells_calls_tokens_hit_rate_and_where_the_trace_is(tmp_path: Path) -> None:
    recorded = record(tmp_path, *python("ask('hello'); ask('again')"))

    assert recorded.err.splitlines()[1:] == [
        "rotoscope: 2 calls, 40 prompt tokens, 10 completion tokens",
        "rotoscope: live hit rate 25.0%: cached tokens of prompt tokens, as the server told for 2 calls",
        f"rotoscope: trace: {tmp_path / 'run-0001.trace.json'}",
    ]


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_exit_status_is_the_commands_and_the_trace_is_written_all_the_same(
    ending: str, status: int, tmp_path: Path
) -> None:
    recorded = record(tmp_path, *python(f"ask('hello'); {ending}"))

    assert recorded.status == status
    assert (tmp_path / "run-0001.trace.json").exists()


@pytest.mark.parametrize(("options", "is_asked"), [([], True), (["--no-usage-request"], False)])
def test_usage_of_response_streams_is_asked_for_unless_that_is_not_wanted(
    options: list[str], is_asked: bool, tmp_path: Path
) -> None:
    asked: list[bool] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        asked.append("stream_options" in await request.json())
        return web.Response(body=sse(chat_chunk({"content": "hi"}), "[DONE]"), content_type="text/event-stream")

    ask_in_stream = (
        "import contextlib\nwith contextlib.suppress(ValueError):\n"
        " call({'model': 'm', 'stream': True, 'messages': [{'role': 'user', 'content': 'hello'}]})"
    )
    record(tmp_path, *python(ask_in_stream), handler=stream, options=options)

    assert asked == [is_asked]


def test_options_behind_the_command_are_its_own(tmp_path: Path) -> None:
    assert record(tmp_path, "sh", "-c", "printf %s $0", "--measure").out == "--measure"


def test_signal_reaches_the_command_and_the_trace_is_written(tmp_path: Path) -> None:
    source = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print(ask('x'), flush=True)
sys.exit(29 + signal.sigwait([signal.SIGTERM]))
"""

    async def run() -> Ended:
        command = python("import signal\n" + source)
        async with (
            serving(answer) as origin,
            rotoscope("record", "--upstream", origin, "-o", str(tmp_path), *command) as process,
        ):
            assert process.stdout is not None
            assert await process.stdout.readline() == b"done\n"
            process.terminate()
            return await ended(process)

    assert asyncio.run(run()).status == 44
    assert (tmp_path / "run-0001.trace.json").exists()


AS_OF_A_TERMINAL = """
import os, sys
for stream in range(3):
    os.dup2(os.open(sys.argv[1], os.O_RDWR), stream)
os.execv(sys.argv[2], sys.argv[2:])
"""
APART_FROM_THE_TERMINAL = """
import os, signal, sys
said = os.open(sys.argv[1], os.O_WRONLY)
watcher = os.fork()
if not watcher:  # stays in the foreground of the terminal, and tells when the interrupt has come
    signal.signal(signal.SIGINT, lambda *_: os.write(said, b"interrupted\\n"))
    os.write(said, b"watching\\n")
    while True:
        signal.pause()
os.setpgid(0, 0)
interrupts = []
signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
def end(*_):
    os.kill(watcher, signal.SIGKILL)
    sys.exit(40 + len(interrupts))
signal.signal(signal.SIGTERM, end)
os.write(said, b"ready\\n")
while True:
    signal.pause()
"""


def test_interrupt_of_a_terminal_is_left_to_the_terminal(tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    heard = os.open(said, os.O_RDWR)
    leader, terminal = pty.openpty()
    recording = [sys.executable, "-m", "rotoscope", "record", "--upstream", "http://127.0.0.1:9", "-o", str(tmp_path)]
    command = [*recording, sys.executable, "-c", APART_FROM_THE_TERMINAL, str(said)]
    process = subprocess.Popen(
        [sys.executable, "-c", AS_OF_A_TERMINAL, os.ttyname(terminal), *command],
        start_new_session=True,
        env=clean_environment(),
    )

    def wait_to_hear(lines: set[bytes]) -> None:
        while lines:
            assert select.select([heard], [], [], PATIENCE_S)[0], f"nothing was heard, expected {lines}"
            lines -= set(os.read(heard, 100).splitlines())

    try:
        wait_to_hear({b"watching", b"ready"})
        os.write(leader, b"\x03")
        wait_to_hear({b"interrupted"})
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 40
    finally:
        process.kill()
        process.wait()
        for descriptor in (leader, terminal, heard):
            os.close(descriptor)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--upstream", "http://127.0.0.1:9", "-o", "{}", "no-such-command"],
            "the command 'no-such-command' cannot be",
        ),
        (["--upstream", "http://127.0.0.1:9", "-o", "/dev/null", "touch", "{}/started"], "/dev/null: traces cannot be"),
        (
            ["-o", "{}", "touch", "{}/started"],
            "give --upstream, like 'http://localhost:8000/v1', or set OPENAI_BASE_URL",
        ),
        (["--upstream", "localhost:8000", "-o", "{}", "touch", "{}/started"], "the upstream is no base URL"),
        (
            ["--upstream", "http://127.0.0.1:9", "--tokenizer", "{}/none", "-o", "{}", "touch", "{}/started"],
            "expected auto, none, o200k_base, cl100k_base or a tokenizer.json",
        ),
    ],
)
def test_what_cannot_be_recorded_fails_in_one_sentence_before_the_command_starts(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    async def run() -> Ended:
        async with rotoscope("record", *(argument.format(tmp_path) for argument in arguments)) as process:
            return await ended(process)

    failed = asyncio.run(run())

    assert failed.status == 2
    assert says in failed.err
    assert failed.err.splitlines()[-1].startswith("error: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "no request came; clients that do not read OPENAI_BASE_URL or OPENAI_API_BASE need the address in"),
        (
            "refused({'model': 'm', 'messages': [{'role': 'user', 'content': 'x'}]})",
            "1 call came, and the server answered",
        ),
        ("call({'x': 'y'}, '/unknown')", "1 request came, none of them a call"),
        ("call({'prompt': 'x'}, '/api/generate')", "what the recorder could not do is told above"),
    ],
)
def test_nothing_recorded_is_said_with_its_usual_cause_and_leaves_nothing(
    source: str, says: str, tmp_path: Path
) -> None:
    recorded = record(tmp_path, *python(source))

    assert recorded.status == 0
    assert f"NOTHING WAS RECORDED: {says}" in recorded.err
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_the_command_unharmed_and_is_said_once(tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "rotoscope", "record"]

    async def run() -> Ended:
        async with serving(answer) as origin:
            command = [
                *limited,
                "--upstream",
                origin,
                "-o",
                str(tmp_path),
                *python("for i in range(30): print(ask(str(i)))"),
            ]
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=clean_environment(),
            )
            return await ended(process)

    recorded = asyncio.run(run())

    assert (recorded.status, recorded.out) == (0, "done\n" * 30)
    assert recorded.err.count("the journal cannot be written") == 1
    assert "RECORDING FAILED: there is no trace: File too large" in recorded.err


def test_server_that_cannot_be_reached_is_told_at_once_and_once(tmp_path: Path) -> None:
    source = """
for _ in range(3):
    try:
        ask("hello")
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["error"]["type"])
"""

    async def run() -> Ended:
        async with rotoscope(
            "record", "--upstream", "http://127.0.0.1:9", "-o", str(tmp_path), *python(source)
        ) as process:
            return await ended(process)

    recorded = asyncio.run(run())

    assert recorded.out == "502 gateway_error\n" * 3
    assert recorded.err.count("the connection was refused") == 1


CANARY = "canary-7f3a91"
"""Stands in everything that an agent, a tool or a server says here, each time with another ending."""

CARELESS_AGENT = """
import contextlib, http.client, pathlib, shutil, socket, threading
from urllib.parse import urlsplit
host, port = urlsplit(os.environ["OPENAI_BASE_URL"]).netloc.split(":")
tool = {"type": "function", "function": {"name": "CANARY-tool", "description": "CANARY-description",
        "parameters": {"type": "object", "properties": {"CANARY-parameter": {"type": "string"}}}}}
called = {"role": "assistant", "content": None, "reasoning_content": "CANARY-thinking", "tool_calls": [
          {"id": "CANARY-id", "type": "function", "function": {"name": "CANARY-tool", "arguments": '{"a":"CANARY-argument"}'}}]}
messages = [{"role": "system", "content": "CANARY-system"}, {"role": "user", "name": "CANARY-name", "content": [
            {"type": "text", "text": "CANARY-text"}, {"type": "image_url", "image_url": {"url": "data:CANARY-image"}}]},
            called, {"role": "tool", "tool_call_id": "CANARY-id", "content": "CANARY-result"}]
chat = {"model": "CANARY-model", "messages": messages, "tools": [tool], "user": "CANARY-user", "metadata": {"CANARY-key": "1"}}
headers = {"Authorization": "Bearer CANARY-secret", "X-CANARY-header": "CANARY-value", "Cookie": "CANARY-cookie=1",
           "Content-Type": "application/json", "User-Agent": "CANARY-agent"}

def send(behaviour, body, path="/v1/chat/completions", read=None, method="POST"):
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    query = "?key=CANARY-query"
    connection.request(method, path + query, body, headers | {"X-Behaviour": behaviour})
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer = connection.getresponse()
        answer.read(read)
    connection.close()

whole, stream = json.dumps(chat).encode(), json.dumps(chat | {"stream": True}).encode()
for behaviour in ("whole", "gzip", "refuse", "redirect", "nonsense", "hang-up", "bad-header", "zstd"):
    send(behaviour, whole)
for behaviour in ("stream", "stream-error", "stream-nonsense", "stream-hang-up"):
    send(behaviour, stream)
send("stream-wait", stream, read=20)
send("whole", b'{"messages": "CANARY-broken')
send("whole", json.dumps({"messages": [{"role": ["CANARY-role"], "content": {"CANARY": 1}}, "CANARY-string"]}).encode())
send("whole", whole, path="/v1/CANARY-path")
send("whole", whole, path="/v1/responses")
send("whole", None, path="/v1/files/CANARY-file", method="GET")
for broken in (b"CANARY-method / HTTP/1.1\\r\\nCANARY-no-colon\\r\\n\\r\\n", b"POST /v1/chat/completions HTTP/9 CANARY\\r\\n\\r\\n",
               b"POST /v1/chat/completions HTTP/1.1\\r\\nContent-Length: CANARY\\r\\n\\r\\n",
               b"POST /v1/chat/completions HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nCANARY-size\\r\\n"):
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(broken)
        raw.shutdown(socket.SHUT_WR)
        raw.recv(65536)
for journal in pathlib.Path(sys.argv[1]).glob("*.journal.jsonl"):
    shutil.copy(journal, sys.argv[2])
""".replace("CANARY", CANARY)


async def careless_server(request: web.Request) -> web.StreamResponse:
    """Put canaries into answers, errors, headers and everything else that a server sends."""
    body = await request.read()
    said = f"{CANARY}-answer"
    if request.path in ("/apply-template", "/tokenize"):
        return web.json_response({"error": {"message": f"{CANARY}-tokenize {body!r}"}}, status=500)
    message = chat_chunk({"content": said, "reasoning_content": f"{CANARY}-reasoning"})
    calls = [{"index": 0, "id": said, "function": {"name": f"{CANARY}-tool", "arguments": f'{{"a": "{CANARY}"'}}]
    error = {"error": {"message": f"{CANARY}-error", "type": f"{CANARY}-type", "code": f"{CANARY}-code"}}
    answer = json.dumps(chat_answer(said) | {"model": said, "system_fingerprint": said}).encode()
    headers = {"X-Request-Id": said, "Set-Cookie": f"{said}=1", "Content-Type": "application/json"}
    match request.headers.get("X-Behaviour", ""):
        case "gzip":
            return web.Response(body=gzip.compress(answer), headers=headers | {"Content-Encoding": "gzip"})
        case "zstd":
            return web.Response(body=answer, headers=headers | {"Content-Encoding": "zstd"})
        case "refuse":
            return web.Response(body=json.dumps(error).encode(), status=400, reason=said, headers=headers)
        case "redirect":
            return web.Response(status=307, headers={"Location": f"http://127.0.0.1:9/{said}"})
        case "nonsense":
            return web.Response(text=said, headers=headers)
        case "hang-up" | "bad-header":
            assert request.transport is not None
            if request.headers["X-Behaviour"] == "bad-header":
                request.transport.write(f"HTTP/1.1 200 OK\r\n{said} \x00 \r\n\r\n".encode())
            request.transport.close()
            return web.Response()
        case behaviour if behaviour.startswith("stream"):
            pass
        case _:
            return web.Response(body=answer, headers=headers)
    response = web.StreamResponse(headers=headers | {"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse(message, chat_chunk({"tool_calls": calls})))
    match behaviour:
        case "stream-error":
            await response.write(sse(error))
        case "stream-nonsense":
            await response.write(f"data: {said}\n\n: {said}\n\n{said}\n\n".encode())
        case "stream-hang-up":
            assert request.transport is not None
            request.transport.close()
        case "stream-wait":
            await asyncio.Event().wait()
        case _:
            await response.write(sse(chat_chunk({}, "tool_calls"), usage_chunk(), "[DONE]"))
    return response


@pytest.mark.parametrize("options", [["--tokenizer", "cl100k_base"], ["--measure"]])
def test_nothing_that_anyone_said_is_in_any_byte_written(options: list[str], tmp_path: Path) -> None:
    folder, scratch, kept = tmp_path / "folder", tmp_path / "scratch", tmp_path / "kept"
    for made in (scratch, kept):
        made.mkdir()
    places = {"TMPDIR": str(scratch), "HOME": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}

    async def run() -> Ended:
        async with serving(careless_server) as origin:
            arguments = ["--upstream", origin, "-o", str(folder), *options, "--"]
            command = python(CARELESS_AGENT, str(folder), str(kept))
            variables = {"PYTHONDEVMODE": "1", "ROTOSCOPE_TRACEBACK": "1", **places}
            async with rotoscope("record", *arguments, *command, **variables) as process:
                return await ended(process)

    recorded = asyncio.run(run())

    written = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert recorded.status == 0, recorded.err
    assert {Path(name).suffix for name in written} >= {".json", ".jsonl"}
    assert len(list(load(folder / "run-0001.trace.json").calls())) >= 8
    said = {
        CANARY,
        *re.findall(
            f"{CANARY}-[a-z]+", CARELESS_AGENT + inspect.getsource(careless_server).replace("{CANARY}", CANARY)
        ),
    }
    canaries = Canaries.of(sorted(said))
    assert canaries.in_tree(tmp_path) == []
    assert canaries.in_text(recorded.out + recorded.err) == []


def test_recordings_that_run_at_once_in_one_folder_have_a_trace_each(tmp_path: Path) -> None:
    arrived, all_arrived = [0], asyncio.Event()

    async def together(request: web.Request) -> web.StreamResponse:
        await request.read()
        arrived[0] += 1
        if arrived[0] == 3:
            all_arrived.set()
        await asyncio.wait_for(all_arrived.wait(), PATIENCE_S)
        return web.json_response(chat_answer())

    async def one(origin: str) -> Ended:
        options = ("--upstream", origin, "--tokenizer", "none", "-o", str(tmp_path))
        async with rotoscope("record", *options, "--", *python("ask('hello')")) as process:
            return await ended(process)

    async def run() -> list[Ended]:
        async with serving(together) as origin:
            return await asyncio.gather(*(one(origin) for _ in range(3)))

    assert {recorded.status for recorded in asyncio.run(run())} == {0}
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run-000{i}.trace.json" for i in (1, 2, 3)]
