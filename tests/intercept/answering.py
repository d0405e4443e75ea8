"""What the tests ask over an interception, and a server that keeps what it was asked."""

from __future__ import annotations

import json

from aiohttp import web

JSON = [("content-type", "application/json")]
EVENT_STREAM = {"Content-Type": "text/event-stream"}


def body_of(body: object) -> bytes:
    return json.dumps(body).encode()


class Server:
    """Answers, and keeps what it was asked."""

    def __init__(self, answer: bytes, content_type: str = "application/json", **headers: str) -> None:
        self.asked: list[tuple[str, list[tuple[bytes, bytes]], bytes]] = []
        self._answer = answer
        self._headers = {"Content-Type": content_type, **headers}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        lines = [(name.lower(), value) for name, value in request.raw_headers if name.lower() not in (b"host",)]
        self.asked.append((f"{request.method} {request.raw_path}", sorted(lines), await request.read()))
        return web.Response(body=self._answer, headers=self._headers)
