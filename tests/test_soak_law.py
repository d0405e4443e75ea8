"""Law: whatever clients and servers do, what a client got whole is in a trace once, and no byte of it is another's.

`python -m scripts.soak` says the same of many more requests, and of memory and descriptors.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rotoscope_process import clean_environment

from rotoscope.testing import CAMPAIGN, TRACE_ID, make_call
from rotoscope.traces import Trace
from rotoscope.traces.model import FinishReason
from scripts.soak import verdict
from scripts.soak.dialects import not_spoken
from scripts.soak.ledger import Outcome, RunLedger
from scripts.soak.upstream import Seen

ROOT = Path(__file__).parents[1]


def soak(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.soak", *arguments],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_call_that_a_client_got_whole_is_in_a_trace_once(tmp_path: Path) -> None:
    sizes = ("--calls", "160", "--calls-a-run", "40", "--runs-at-once", "4", "--clients", "4", "--big", "0")

    said = soak("proxy", "--quick", "--tokenizer", "none", "--work", str(tmp_path), *sizes)

    assert "all as it should be" in said


def test_a_kill_loses_what_is_in_flight_and_nothing_else(tmp_path: Path) -> None:
    said = soak("kill", "--rounds", "1", "--calls", "60", "--big", "0", "--work", str(tmp_path))

    assert "killed after" in said


def test_each_dialect_is_spoken() -> None:
    assert not_spoken() == set()


def ledger_of(*outcomes: Outcome) -> RunLedger:
    """Return what the clients of a run of so many requests know."""
    ledger = RunLedger("run")
    for number, outcome in enumerate(outcomes, start=1):
        ledger.note(outcome, number, is_embedding=False)
    return ledger


def trace_of(*calls: tuple[int, FinishReason]) -> Trace:
    """Return a trace of calls, each of a number and an end."""
    events = [make_call(at, osl=number, finish_reason=end) for at, (number, end) in enumerate(calls)]
    return Trace(trace_id=TRACE_ID, campaign=CAMPAIGN, token_source="usage", events=tuple(events))


WHOLE, FAILED = ledger_of("whole", "whole"), ledger_of("whole", "failed")
CANCELLED, UNSURE = ledger_of("whole", "cancelled"), ledger_of("whole", "unsure", "refused", "unrecorded")


@pytest.mark.parametrize(
    ("ledger", "trace"),
    [
        (WHOLE, trace_of((1, "stop"), (2, "stop"))),
        (FAILED, trace_of((1, "stop"), (0, "error"))),
        (CANCELLED, trace_of((1, "stop"), (0, "cancelled"))),
        (UNSURE, trace_of((1, "stop"))),
        (UNSURE, trace_of((1, "stop"), (0, "cancelled"), (0, "error"))),
    ],
)
def test_a_trace_of_what_the_clients_know_is_right(ledger: RunLedger, trace: Trace) -> None:
    assert list(ledger.problems([trace])) == []


@pytest.mark.parametrize(
    ("ledger", "trace", "problem"),
    [
        (WHOLE, trace_of((1, "stop"), (9, "error")), "1 whole calls are in no trace"),
        (WHOLE, trace_of((1, "stop"), (2, "stop"), (2, "stop")), "twice"),
        (FAILED, trace_of((1, "stop"), (2, "stop")), "not for their clients"),
        (FAILED, trace_of((1, "stop")), "1 requests are in the traces"),
        (UNSURE, trace_of((1, "stop"), (0, "error"), (0, "error"), (0, "error")), "4 requests are in the traces"),
        (CANCELLED, trace_of((1, "stop"), (0, "error")), "0 calls are marked as cancelled"),
        (WHOLE, trace_of((1, "stop"), (2, "stop"), (0, "lost")), "1 calls are lost"),
    ],
)
def test_a_trace_that_says_otherwise_is_found(ledger: RunLedger, trace: Trace, problem: str) -> None:
    assert problem in " ".join(ledger.problems([trace]))


def test_what_was_in_flight_at_a_kill_may_be_lost_and_what_was_whole_may_not() -> None:
    ledger = ledger_of("whole", "cancelled")
    ledger.left.add(2)
    ledger.open.add(3)
    killed = ledger.at_a_kill()

    assert list(killed.problems([trace_of((1, "stop"), (0, "lost"), (0, "lost"))], lost=2)) == []
    assert list(killed.problems([trace_of((1, "stop"))], lost=2)) == []
    assert list(killed.problems([trace_of((0, "lost"))], lost=2)) != []


def test_after_a_kill_a_trace_without_a_whole_call_is_of_a_run_that_had_none() -> None:
    silent, other = ledger_of("failed", "unsure"), ledger_of("whole")
    silent.name = "silent"
    kept = {"silent": [], "run": [trace_of((1, "stop"))]}

    def problems(*unknown: Trace) -> str:
        return " ".join(verdict.killed_problems([silent, other], verdict.Written(kept, list(unknown))))

    assert problems(trace_of((0, "error"), (0, "lost"))) == ""
    assert "0 requests are in the traces" in problems()
    assert "not for their clients" in problems(trace_of((7, "stop")))


@pytest.mark.parametrize(
    ("seen", "digests", "problem"),
    [
        (Seen(changed=["a"]), {}, "changed"),
        (Seen(repeated=1), {}, "twice"),
        (Seen(holding=1), {}, "outlived"),
        (Seen(digests={"a": b"1"}), {"a": b"2"}, "changed"),
        (Seen(), {"a": b"2"}, "changed"),
    ],
)
def test_bytes_that_are_others_are_found(seen: Seen, digests: dict[str, bytes], problem: str) -> None:
    (told,) = verdict.byte_problems(seen, digests)

    assert problem in told
