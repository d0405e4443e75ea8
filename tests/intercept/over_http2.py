"""Run an agent whose clients speak HTTP/2: `over_http2.py AGENT`. It runs in the environment of the clients.

httpx2 2.16 does not tell a server of HTTP/2 that a stream was left, which goes on for nobody until the connection ends;
here it does, as other clients do.
"""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path
from typing import Any

import httpx2
from h2.errors import ErrorCodes
from httpcore2._async.http2 import AsyncHTTP2Connection

closed = AsyncHTTP2Connection._response_closed


async def leave(self: Any, stream_id: int) -> None:
    """Reset a stream that has not ended."""
    stream = self._h2_state.streams.get(stream_id)
    if stream is not None and not stream.closed:
        async with self._write_lock:
            self._h2_state.reset_stream(stream_id, ErrorCodes.CANCEL)
            await self._network_stream.write(self._h2_state.data_to_send())
    await closed(self, stream_id=stream_id)


AsyncHTTP2Connection._response_closed = leave
for kind in (httpx2.Client, httpx2.AsyncClient):
    kind.__init__ = functools.partialmethod(kind.__init__, http2=True)

agent = sys.argv[1]
sys.path.insert(0, str(Path(agent).parent))
runpy.run_path(agent, run_name="__main__")
