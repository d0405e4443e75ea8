"""A server in front of another one: HTTP/1 and HTTP/2 by TLS, as hypercorn speaks them, for what speaks neither.

    front.py SOCKET CERTIFICATE KEY ORIGIN_FILE

SOCKET is the number of a descriptor that listens. Requests go on, and answers come, as they are and piece by piece, to the
origin that ORIGIN_FILE names at that moment; a client that leaves is left there too. Answers say in `x-spoken` which
version the client spoke. It runs in the environment of the clients.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from hypercorn.asyncio import serve
from hypercorn.config import Config

OF_ONE_CONNECTION = {b"host", b"connection", b"transfer-encoding", b"keep-alive"}
OF_ONE_ANSWER = OF_ONE_CONNECTION | {b"date"}


def application(origin: Callable[[], str]) -> Any:
    """Return the ASGI application."""
    client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None), trust_env=False)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await echo(receive, send)
        elif scope["type"] == "http":
            body = await whole_body(receive)
            passing = asyncio.create_task(pass_on(client, origin(), scope, body, send))
            leaving = asyncio.create_task(left(receive))
            await asyncio.wait([passing, leaving], return_when=asyncio.FIRST_COMPLETED)
            for task in (passing, leaving):
                task.cancel()
            await asyncio.wait([passing, leaving])

    return answer


async def pass_on(client: httpx2.AsyncClient, origin: str, scope: Any, body: bytes, send: Any) -> None:
    """Send a request on, and its answer back piece by piece."""
    target = scope["raw_path"].decode() + (f"?{scope['query_string'].decode()}" if scope["query_string"] else "")
    headers = [line for line in scope["headers"] if line[0] not in OF_ONE_CONNECTION]
    asked = client.build_request(scope["method"], origin + target, headers=headers, content=body)
    for name in ("accept", "accept-encoding", "user-agent"):  # what the client of the front adds by itself
        if name.encode() not in dict(headers) and name in asked.headers:
            del asked.headers[name]
    answer = await client.send(asked, stream=True)
    try:
        lines = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in OF_ONE_ANSWER]
        lines.append((b"x-spoken", scope["http_version"].encode()))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": lines})
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        await answer.aclose()


async def echo(receive: Any, send: Any) -> None:
    """Accept a WebSocket, and say back each message until it is closed."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


async def whole_body(receive: Any) -> bytes:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def left(receive: Any) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def main() -> None:
    """Serve until the process is ended."""
    socket, certificate, key, origin_file = sys.argv[1:]
    config = Config()
    config.bind = [f"fd://{socket}"]
    config.certfile, config.keyfile = certificate, key
    config.include_server_header = config.include_date_header = False
    config.keep_alive_timeout = 3600
    config.loglevel = "ERROR"
    asyncio.run(serve(application(Path(origin_file).read_text), config))


if __name__ == "__main__":
    main()
