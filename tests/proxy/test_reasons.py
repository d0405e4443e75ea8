from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from rotoscope.proxy.reasons import reason_of
from rotoscope.recorder.encodings import Undecodable


def connector_error(cause: OSError) -> aiohttp.ClientConnectorError:
    key: Any = SimpleNamespace(host="secret-host", port=1, is_ssl=True, ssl=True)
    return aiohttp.ClientConnectorError(key, cause)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (connector_error(ConnectionRefusedError(111, "refused")), "the connection was refused"),
        (connector_error(OSError(113, "no route")), "the connection failed"),
        (TimeoutError(), "no connection in time"),
        (aiohttp.ServerTimeoutError(), "no connection in time"),
        (aiohttp.ServerDisconnectedError(), "it closed the connection without an answer"),
        (aiohttp.ClientPayloadError("secret"), "its answer broke off"),
        (aiohttp.ClientResponseError(cast(Any, None), (), message="secret"), "its answer is no HTTP"),
        (aiohttp.ClientOSError(104, "reset"), "the connection failed"),
        (ConnectionResetError(), "the connection was lost"),
        (Undecodable("secret"), "its body is not what its encoding says"),
        (ValueError("secret"), "the connection failed"),
    ],
)
def test_error_is_told_by_its_kind_and_not_by_its_text(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
