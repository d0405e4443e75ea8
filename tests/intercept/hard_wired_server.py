"""The server of an agent that is hard-wired to it: `hard_wired_server.py ADDRESS CERTIFICATE KEY READY`.

By TLS on port 443 every request gets one answer of a chat, over HTTP/1 or HTTP/2; on port 7 is a greeting. READY is a file that
is there when it listens. It runs in the environment of the clients.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Nor is this"}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE], "usage": USAGE}


async def answer(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"x-spoken", scope["http_version"].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(ANSWER).encode()})


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    await writer.drain()
    writer.close()


async def main(address: str, certificate: str, key: str, ready: Path) -> None:
    listening, config = socket.create_server((address, 443)), Config()
    config.bind, config.certfile, config.keyfile = [f"fd://{listening.fileno()}"], certificate, key
    config.loglevel = "ERROR"
    async with await asyncio.start_server(greet, address, 7):
        ready.touch()  # noqa: ASYNC240 - before anybody comes
        await serve(answer, config)


ADDRESS, CERTIFICATE, KEY, READY = sys.argv[1:]
asyncio.run(main(ADDRESS, CERTIFICATE, KEY, Path(READY)))
