"""A server that behaves as its arguments say, for tests of what starts one: no content, no model, standard library only.

    python started_server.py PORT [dies|silent|stubborn|forks PIDFILE|lingers FILE|tells PIDFILE|slow SECONDS] ...

It answers /v1/models and completions of token ids as vLLM does, with the length asked for. `lingers` is a script that ends at
once and a server behind it that takes 2.5 s to end and writes the file then. `slow` makes the first token of a
request take that many seconds times the requests that are in flight when it comes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet
    slow_s = 0.0
    in_flight = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        self._send(200 if found else 404, b'{"data": [{"id": "m", "meta": {"n_vocab": 32768}}]}' if found else b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with Handler.lock:
            Handler.in_flight += 1
            in_flight = Handler.in_flight
        time.sleep(Handler.slow_s * in_flight)
        with Handler.lock:
            Handler.in_flight -= 1
        self._send(200, answer(body))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def answer(body: dict[str, object]) -> bytes:
    """Return the events of an answer of the length asked for, each token in one of its own."""
    prompt, asked = body["prompt"], body["max_tokens"]
    assert isinstance(prompt, list)
    assert isinstance(asked, int)
    events: list[object] = [
        {"choices": [{"index": 0, "text": "x", "token_ids": [5000 + number], "finish_reason": None}]}
        for number in range(asked)
    ]
    usage = {"prompt_tokens": len(prompt), "completion_tokens": asked, "prompt_tokens_details": {"cached_tokens": 0}}
    events.append({"choices": [], "usage": usage})
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def has_ended(pid: int, *, within_s: float) -> bool:
    """Return whether a process that was killed ends in this time; nobody may be there to reap it."""
    end_s = time.monotonic() + within_s
    while (is_there := _is_running(pid)) and time.monotonic() < end_s:
        os.sched_yield()
    return not is_there


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def linger(file: Path) -> None:
    def end(number: int, frame: object) -> None:
        time.sleep(2.5)
        file.write_text("ended")
        os._exit(0)

    if os.fork():
        signal.pause()
    signal.signal(signal.SIGTERM, end)


def main(port: str, *how: str) -> None:
    print("loading the model", flush=True)
    if "dies" in how:
        sys.exit("out of memory: \x1b[31mno room\x1b[0m for the model")
    if "stubborn" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "forks" in how:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(3600)
        Path(how[how.index("forks") + 1]).write_text(str(child))
    if "lingers" in how:
        linger(Path(how[how.index("lingers") + 1]))
    if "tells" in how:
        Path(how[how.index("tells") + 1]).write_text(str(os.getpid()))
    if "slow" in how:
        Handler.slow_s = float(how[how.index("slow") + 1])
    if "silent" in how:
        while True:
            time.sleep(3600)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
