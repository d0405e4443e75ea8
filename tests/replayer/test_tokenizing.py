from __future__ import annotations

import asyncio

import aiohttp
from yarl import URL

from rotoscope.replayer.tokenizing import ServerTokenizer

ANSWERS = {
    b"/tokenize": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n",
    b"/v1/chat/completions": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
}


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request by its path and hang up on the next one, with a warning only for those who ask for it."""
    head = await reader.readuntil(b"\r\n\r\n")
    warning = b"Connection: close\r\n" if b"connection: close" in head.lower() else b""
    writer.write(ANSWERS[head.split()[1]] + warning + b"\r\n")
    await writer.drain()
    await reader.read(1)
    writer.close()


async def after_asking_for_a_tokenizer() -> int:
    """Ask a server that has no tokenizer for one, then send a request on the same session; return its status."""
    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    async with server, aiohttp.ClientSession() as http:
        assert await ServerTokenizer(http, url, model="m", timeout_s=10).text("a") is None
        async with http.post(url / "chat/completions") as answer:
            return answer.status


def test_a_server_that_hangs_up_after_a_404_is_asked_on_another_connection() -> None:
    assert asyncio.run(after_asking_for_a_tokenizer()) == 200
