"""Which version of itself a server tells, where its engine has a place for that."""

from __future__ import annotations

import asyncio
import re

import aiohttp
import orjson
from yarl import URL

from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.server import body_of

VERSION = r"[bv]?[0-9][0-9A-Za-z.+_-]{0,63}"
"""A number in front, as of a release or a build; nothing else of a server's answer is taken for a version."""

_LONGEST_S = 3.0
"""A version is worth no longer a wait."""
_EVERYWHERE = (("/version", "version"),)
_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "llama.cpp": (("/props", "build_info"),),
    "sglang": (("/server_info", "version"), ("/get_server_info", "version")),
    "openai": (),
    "anthropic": (),
}
"""Paths and fields by engine, the older ones of SGLang last; tried on llama.cpp and the simulator, else from sources."""


async def ask_version(http: aiohttp.ClientSession, api: URL, *, engine: Engine, timeout_s: float) -> str | None:
    """Return the version of the server whose API is at `api`, None where it tells none; raises nothing."""
    root = api.parent
    try:
        async with asyncio.timeout(min(timeout_s, _LONGEST_S)):
            for path, field in _PLACES.get(engine.name, _EVERYWHERE):
                status, body = await body_of(http, root.with_path(root.path.rstrip("/") + path))
                if status == 200 and (version := _version_in(body, field)) is not None:
                    return version
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass
    return None


def _version_in(body: bytes, field: str) -> str | None:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    value = answer.get(field) if isinstance(answer, dict) else None
    return value if isinstance(value, str) and re.fullmatch(VERSION, value) else None
