"""One thing at a time, and what comes up in the midst of it."""

from __future__ import annotations

import threading

import pytest
from event_loops import GUARD_S
from sdk_gateways import ran

from rotoscope.sdk.turns import Turns


def test_what_comes_up_in_the_midst_of_a_thing_is_done_behind_it() -> None:
    turns, done = Turns(), list[str]()

    def second() -> str:
        done.append("second")
        return "now"

    def first() -> str:
        assert turns.take(second, otherwise="later") == "later"
        done.append("first")
        return "now"

    assert turns.take(first, otherwise="later") == "now"
    assert done == ["first", "second"]
    assert turns.take(lambda: "now", otherwise="later") == "now"


def test_threads_wait_for_one_another() -> None:
    turns, done = Turns(), list[str]()
    is_in, may_go_on = threading.Event(), threading.Event()

    def first() -> None:
        is_in.set()
        assert may_go_on.wait(GUARD_S)
        done.append("first")

    threads = [threading.Thread(target=lambda: turns.take(first, otherwise=None))]
    threads[0].start()
    assert is_in.wait(GUARD_S)
    threads.append(threading.Thread(target=lambda: turns.take(lambda: done.append("second"), otherwise=None)))
    threads[1].start()
    may_go_on.set()
    for thread in threads:
        thread.join(GUARD_S)

    assert done == ["first", "second"]


def test_a_thing_that_fails_does_not_hold_up_the_next() -> None:
    turns = Turns()

    def fail() -> None:
        raise KeyError

    try:
        turns.take(fail, otherwise=None)
    except KeyError:
        assert turns.take(lambda: 1, otherwise=0) == 1


def test_a_forked_process_begins_anew() -> None:
    turns, done = Turns(), list[str]()

    def fork() -> int:
        turns.take(lambda: done.append("what the other process does"), otherwise=None)
        turns.begin_anew()
        return turns.take(lambda: 1, otherwise=0)

    assert turns.take(fork, otherwise=2) == 1
    assert done == []


HELD = """
import threading
from rotoscope.sdk.turns import Turns
turns, is_in, is_over = Turns(), threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: turns.take(lambda: is_in.set() or is_over.wait(), otherwise=None))
thread.start()
is_in.wait()
if not (child := os.fork()):
    os._exit(turns.take(lambda: 7, otherwise=8))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
is_over.set()
thread.join()
"""


def test_a_fork_while_another_thread_has_its_turn_waits_for_nobody() -> None:
    out, _ = ran(HELD)

    assert out == "7\n"


def test_what_comes_up_in_the_midst_and_is_interrupted_does_not_hold_up_the_next() -> None:
    turns = Turns()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turns.take(lambda: turns.take(interrupted, otherwise=None), otherwise=None)

    assert turns.take(lambda: 1, otherwise=0) == 1
