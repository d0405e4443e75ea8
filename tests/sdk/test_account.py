"""What is told as a process ends, and to whom."""

from __future__ import annotations

import io
import logging
import sys
from collections import Counter
from functools import partial

import pytest
from sdk_gateways import ran

from rotoscope.recorder.losses import Loss
from rotoscope.sdk import account


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> dict[Loss, int]:
    """The numbers that are counted, and no others."""
    numbers: dict[Loss, int] = {"spans": 0, "agents": 2}
    monkeypatch.setattr(account, "_numbers", {loss: partial(numbers.__getitem__, loss) for loss in numbers})
    monkeypatch.setattr(account, "_told", Counter())
    return numbers


def test_only_what_there_is_some_of_is_told(numbers: dict[Loss, int]) -> None:
    assert account.untold() == {"agents": 2}
    numbers["spans"] = 1
    assert account.untold() == {"agents": 2, "spans": 1}
    numbers.update(dict.fromkeys(numbers, 0))
    assert account.untold() == {}


def test_what_somebody_else_tells_is_not_told_twice(numbers: dict[Loss, int]) -> None:
    account.has_told({"agents": 2})
    assert account.untold() == {}

    numbers["agents"] = 3
    assert account.untold() == {"agents": 1}


def test_one_line_goes_to_the_log_where_somebody_reads_it(
    numbers: dict[Loss, int], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers["spans"] = 1
    account._tell()
    account._tell()

    assert caplog.messages == ["as the process ends: agents that have not ended: 2; spans that were lost: 1"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "times"), [(logging.WARNING, 1), (logging.ERROR, 0)])
def test_line_goes_to_standard_error_where_nobody_has_set_up_logging_and_nobody_does_not_want_it(
    level: int,
    times: int,
    numbers: dict[Loss, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("rotoscope")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [logging.NullHandler()])
    logger.setLevel(level)
    try:
        account._tell()
    finally:
        logger.setLevel(logging.NOTSET)

    assert capsys.readouterr().err == "rotoscope: as the process ends: agents that have not ended: 2\n" * times


def test_nothing_is_said_where_python_has_no_last_resort(
    numbers: dict[Loss, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("rotoscope")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logging, "lastResort", None)
    account._tell()

    assert capsys.readouterr().err == ""


def test_standard_error_that_is_closed_hurts_nobody(numbers: dict[Loss, int], monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(logging.getLogger("rotoscope"), "propagate", False)
    monkeypatch.setattr(sys, "stderr", closed)

    account._tell()


PROCESSES = """
import multiprocessing
from rotoscope.sdk import account
context = multiprocessing.get_context("fork")
def lose(generations):
    for _ in range(2):
        account.count_at_exit("steps", lambda: generations)
    if generations > 1:
        process = context.Process(target=lose, args=(generations - 1,))
        process.start()
        process.join()
process = context.Process(target=lose, args=(3,))
process.start()
process.join()
"""


def test_each_process_of_multiprocessing_tells_its_own_once() -> None:
    _, err = ran(PROCESSES)

    line = "as the process ends: what agents did and was not recorded:"
    assert err.splitlines() == [f"{line} {number}" for number in (1, 2, 3)]


FORK = """
from rotoscope.sdk import account, kept_here
logging.disable()
kept_here.lateness.count()
logging.disable(logging.NOTSET)
account.count_at_exit("agents", lambda: 2)
account.count_at_exit("spans", lambda: 0)
account.has_told({"agents": 1})
if os.fork():
    os.wait()
"""


def test_process_that_is_forked_has_lost_and_told_nothing_yet() -> None:
    _, err = ran(FORK)

    assert err.splitlines() == [
        "as the process ends: agents that have not ended: 2",
        "as the process ends: agents that have not ended: 1; calls that were made after their run had ended: 1",
    ]
