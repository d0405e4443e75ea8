from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rotoscope.proxy.child import FORWARDED, Child
from rotoscope.traces.errors import UnusableInput

READY_THEN_WAIT = """
import signal, sys
signal.signal(int(sys.argv[1]), lambda number, frame: sys.exit(40 + number))
open(sys.argv[2], "wb").close()
while True:
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _no_signal_is_ignored() -> Iterator[None]:
    """Take what whoever runs the tests may ignore."""
    before = {signum: signal.signal(signum, signal.SIG_DFL) for signum in FORWARDED}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", source, *arguments]


def status_of(command: list[str], environment: dict[str, str] | None = None) -> int:
    async def run() -> int:
        child = Child()
        await child.start(command, dict(os.environ) if environment is None else environment)
        return await child.wait()

    return asyncio.run(run())


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status_is_the_commands(status: int) -> None:
    assert status_of(python(f"raise SystemExit({status})")) == status


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_command_that_a_signal_ends_gives_128_more_than_its_number(signum: signal.Signals) -> None:
    assert status_of(python(f"import os; os.kill(os.getpid(), {int(signum)})")) == 128 + signum


def test_command_gets_the_environment_that_it_is_given() -> None:
    source = "import os; raise SystemExit(os.environ['ASKED'] != 'yes')"

    assert status_of(python(source), {**os.environ, "ASKED": "yes"}) == 0


@pytest.mark.parametrize(("kind", "reason"), [("missing", "No such file"), ("locked", "Permission denied")])
def test_command_that_cannot_be_started_is_unusable(kind: str, reason: str, tmp_path: Path) -> None:
    if kind == "locked":
        (tmp_path / kind).touch(mode=0o600)

    with pytest.raises(UnusableInput, match=f"the command '.*{kind}' cannot be started: {reason}"):
        status_of([str(tmp_path / kind)])


@pytest.mark.parametrize("signum", FORWARDED)
def test_signal_that_we_get_reaches_the_command(signum: signal.Signals, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)

    async def run() -> int:
        child = Child()
        with child.signals_forwarded():
            await child.start(python(READY_THEN_WAIT, str(int(signum)), str(ready)), os.environ)
            with await asyncio.to_thread(ready.open, "rb"):  # opens when the command does
                os.kill(os.getpid(), signum)
                return await child.wait()

    assert asyncio.run(run()) == 40 + signum


def test_signal_that_is_ignored_is_so_for_the_command_too() -> None:
    source = "import signal; raise SystemExit(signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)"

    async def run() -> int:
        child = Child()
        with child.signals_forwarded():
            await child.start(python(source), os.environ)
            return await child.wait()

    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    assert asyncio.run(run()) == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_signal_that_comes_before_the_command_has_started_waits_for_it() -> None:
    async def run() -> int:
        child = Child()
        with child.signals_forwarded():
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
            await child.start(python("import signal; signal.pause()"), os.environ)
            return await child.wait()

    assert asyncio.run(run()) == 128 + signal.SIGTERM


def test_signal_that_comes_after_the_end_harms_nobody() -> None:
    async def run() -> int:
        child = Child()
        with child.signals_forwarded():
            await child.start(python(""), os.environ)
            status = await child.wait()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0)
            return status

    assert asyncio.run(run()) == 0
