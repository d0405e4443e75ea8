"""A web server of handlers by path, on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp import web

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handlers: Mapping[str, Handler]) -> AsyncIterator[str]:
    """Serve handlers of GET and POST by path, and yield the URL; everything else is 404."""
    app = web.Application(client_max_size=1 << 30)
    for path, handler in handlers.items():
        app.router.add_route("GET", path, handler)
        app.router.add_route("POST", path, handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
