import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from examples.programs import interruptible, run_command, signals_kept
from rotoscope.traces.errors import UnusableInput


@pytest.fixture(autouse=True)
def _signals_as_in_a_shell() -> Iterator[None]:
    """Handle signals as usual, also where whoever runs the tests ignores some."""
    with signals_kept():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_end_is_an_interruption(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    cleaned = []

    @interruptible
    def main() -> int:
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            cleaned.append(True)
        return 0

    assert main() == 128 + number
    assert cleaned == [True]
    assert capsys.readouterr().err == "interrupted\n"


def test_signals_are_handled_afterwards_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)

    assert interruptible(lambda: 3)() == 3
    assert run_command([sys.executable, "-c", ""], os.environ) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_where_interrupts_are_ignored_it_still_ends() -> None:
    @interruptible
    def main() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main() == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("ending", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL)]
)
def test_the_exit_status_of_a_command_is_passed_on(ending: str, status: int) -> None:
    assert run_command([sys.executable, "-c", f"import os, signal, sys; {ending}"], os.environ) == status


def test_a_command_that_there_is_not_is_told() -> None:
    with pytest.raises(UnusableInput, match="the command 'no-such-command' cannot be started"):
        run_command(["no-such-command"], os.environ)
