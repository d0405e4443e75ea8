from __future__ import annotations

import asyncio
import errno

import pytest

from rotoscope.proxy.loop_errors import kinds_of_errors_told


def test_errors_outside_any_call_are_told_by_their_kind_alone_and_each_kind_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(kinds_of_errors_told())
        for error in (ValueError("secret"), OSError(errno.EMFILE, "secret"), ValueError("another")):
            loop.call_exception_handler({"message": "secret", "exception": error})

    asyncio.run(run())

    assert caplog.messages == [
        "an error outside any call, told once: ValueError",
        "an error outside any call, told once: too many open files",
    ]
