"""HTTP clients as one: each sends a body, takes the answer as it is told to, and tells all that came of it."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import requests

Taking = Literal["whole", "raw", "lines", "first"]
"""The whole answer; what was sent, in pieces; as lines; or a first piece, and then the client leaves."""


@dataclass(frozen=True)
class Outcome:
    """What came of a request, as its client tells it."""

    content: bytes
    error: str
    status: int
    headers: tuple[tuple[str, str], ...]
    about: tuple[str, ...]
    """What else the client tells of it."""


def _outcome(
    content: Iterable[bytes], error: Exception | None, status: int, headers: Iterable[tuple[str, str]], *about: object
) -> Outcome:
    told = "" if error is None else f"{type(error).__module__}.{type(error).__name__}: {error}"
    return Outcome(b"".join(content), told, status, tuple(headers), tuple(map(repr, about)))


def by_httpx(module: Any) -> Callable[[str, bytes, Taking], Outcome]:
    def ask(url: str, body: bytes, taking: Taking) -> Outcome:
        content: list[bytes] = []
        failed: Exception | None = None
        response: Any = None
        try:
            with module.Client(verify=False) as client, client.stream("POST", url, content=body) as response:
                if taking == "whole":
                    content.append(response.read())
                elif taking == "lines":
                    content.extend(line.encode() for line in response.iter_lines())
                else:
                    for piece in response.iter_raw():
                        content.append(piece)
                        if taking == "first":
                            break
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            failed = error
        return _of_httpx(response, content, failed)

    return ask


def by_httpx_async(module: Any) -> Callable[[str, bytes, Taking], Outcome]:
    async def ask(url: str, body: bytes, taking: Taking) -> Outcome:
        content: list[bytes] = []
        failed: Exception | None = None
        response: Any = None
        try:
            async with module.AsyncClient(verify=False) as client, client.stream("POST", url, content=body) as response:
                if taking == "whole":
                    content.append(await response.aread())
                elif taking == "lines":
                    content.extend([line.encode() async for line in response.aiter_lines()])
                else:
                    async for piece in response.aiter_raw():
                        content.append(piece)
                        if taking == "first":
                            break
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            failed = error
        return _of_httpx(response, content, failed)

    return lambda *args: asyncio.run(ask(*args))


def _of_httpx(response: Any, content: list[bytes], error: Exception | None) -> Outcome:
    if response is None:
        return _outcome(content, error, 0, [])
    request = response.request
    about = (response.http_version, response.reason_phrase, response.history, type(response.elapsed), request.headers)
    return _outcome(
        content, error, response.status_code, response.headers.multi_items(), *about, response.is_closed,
        response.num_bytes_downloaded if error is None else 0, sorted(response.extensions), request.content, type(response.stream),
    )  # fmt: skip


def by_requests(url: str, body: bytes, taking: Taking) -> Outcome:
    content: list[bytes] = []
    failed: Exception | None = None
    response: Any = None
    try:
        with requests.Session() as session, session.post(url, data=body, stream=True) as response:
            if taking == "whole":
                content.append(response.content)
            elif taking == "lines":
                content.extend(response.iter_lines(chunk_size=7))
            else:
                for piece in response.raw.stream(5, decode_content=False):
                    content.append(piece)
                    if taking == "first":
                        break
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        failed = error
    if response is None:
        sent = getattr(failed, "request", None)
        return _outcome(content, failed, 0, [], sent and (sent.headers, sent.body))
    request, raw = response.request, response.raw
    return _outcome(
        content, failed, response.status_code, response.headers.items(), response.reason, response.history,
        response.encoding, request.headers, request.body, type(raw).__name__, raw.version, raw.closed, list(raw.headers.items()),
    )  # fmt: skip


async def _by_aiohttp(url: str, body: bytes, taking: Taking) -> Outcome:
    content: list[bytes] = []
    failed: Exception | None = None
    response: Any = None
    try:
        async with (
            aiohttp.ClientSession(auto_decompress=taking != "raw") as session,
            session.post(url, data=body) as response,
        ):
            if taking == "whole":
                content.append(await response.read())
            elif taking == "lines":
                content.extend([line async for line in response.content])
            else:
                async for piece, _ in response.content.iter_chunks():
                    content.append(piece)
                    if taking == "first":
                        break
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        failed = error
    if response is None:
        return _outcome(content, failed, 0, [])
    about = (response.version, response.reason, response.history, response.raw_headers, response.request_info)
    reader = response.content
    return _outcome(
        content, failed, response.status, response.headers.items(), *about, response.closed,
        type(reader).__name__, 0 if failed or taking == "first" else reader.total_bytes,
    )  # fmt: skip


def by_aiohttp(url: str, body: bytes, taking: Taking) -> Outcome:
    return asyncio.run(_by_aiohttp(url, body, taking))


CLIENTS: dict[str, Callable[[str, bytes, Taking], Outcome]] = {"requests": by_requests, "aiohttp": by_aiohttp}
for _name in ("httpx", "httpx2"):
    if importlib.util.find_spec(_name):
        _module = importlib.import_module(_name)
        CLIENTS |= {_name: by_httpx(_module), f"{_name}-async": by_httpx_async(_module)}
