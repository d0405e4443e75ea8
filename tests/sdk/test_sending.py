"""What agents tell on its way to a gateway, and gateways that are broken."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from weakref import WeakSet

import pytest
from event_loops import GUARD_S
from sdk_gateways import agent_process, heard_gateway, marks_of, ran

from rotoscope.recorder.marks import ToolMark
from rotoscope.sdk import account, sending
from rotoscope.sdk.gateways import gateway_at
from rotoscope.sdk.sending import MOST_AT_ONCE, MOST_TRIES, MOST_WAITING, MOST_WAITING_WITH_ENDS, Sender


def tool(name: str = "t") -> ToolMark:
    return ToolMark(name, "a", 1.0, 2.0)


def sender_to(origin: str) -> Sender:
    return Sender(gateway_at(origin), first_pause_s=0.001)


@pytest.fixture(autouse=True)
def nothing_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "EXIT_S", GUARD_S)


@pytest.fixture
def nothing_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Account for what the test loses alone."""
    monkeypatch.setattr(account, "_numbers", {})
    monkeypatch.setattr(account, "_told", Counter())
    monkeypatch.setattr(sending, "_senders", WeakSet[Sender]())


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of nobody."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_marks_go_by_their_run_and_its_end_behind_them() -> None:
    with heard_gateway() as gateway:
        sender = sender_to(f"{gateway.origin}/v1")
        for run, name in (("one", "a"), ("", "b"), ("one", "c")):
            sender.put(run, tool(name))
        sender.put("one", None)
        assert sender.flush(GUARD_S)

    assert [(one.path, one.run, one.names) for one in gateway.told] == [
        ("/_rotoscope/marks", "one", ["a", "c"]),
        ("/_rotoscope/marks", "", ["b"]),
        ("/_rotoscope/runs/one/end", "", []),
    ]


def test_token_and_run_in_the_path_stay_there_and_a_token_beside_it_is_a_header() -> None:
    with heard_gateway() as gateway:
        for url, token in ((f"{gateway.origin}/token/tok/run/a%20b/v1", ""), (gateway.origin, "tok")):
            sender = Sender(gateway_at(url, token))
            sender.put("", tool())
            assert sender.flush(GUARD_S)

    assert [(one.path, one.token) for one in gateway.told] == [
        ("/token/tok/run/a b/_rotoscope/marks", ""),
        ("/_rotoscope/marks", "tok"),
    ]


def test_batch_that_was_not_answered_is_sent_again_under_its_number(caplog: pytest.LogCaptureFixture) -> None:
    with heard_gateway(statuses=lambda number: (503, 0, 200)[min(number, 2)]) as gateway:
        sender = sender_to(gateway.origin)
        sender.put("", tool("a"))
        assert sender.flush(GUARD_S)
        sender.put("", tool("b"))
        assert sender.flush(GUARD_S)

    assert gateway.names == ["a", "b"]
    assert [one.body["batch"] for one in gateway.told] == [0, 1]
    assert len({one.body["teller"] for one in gateway.told}) == 1
    assert sender.dropped == 0
    assert len([x for x in caplog.messages if "with status 503: it is tried again" in x]) == 1


def test_batch_that_is_refused_is_dropped_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with heard_gateway(statuses=lambda number: 400 if number < 2 else 200) as gateway:
        sender = sender_to(gateway.origin)
        for name in ("a", "b", "c"):
            sender.put("", tool(name))
            assert sender.flush(GUARD_S)

    assert gateway.names == ["c"]
    assert sender.dropped == 2
    assert caplog.messages == ["what agents tell is dropped: the gateway answers with status 400"]


def test_gateway_that_is_gone_is_told_once_and_hurts_nobody(refusing: str, caplog: pytest.LogCaptureFixture) -> None:
    sender = sender_to(refusing)

    for _ in range(3):
        sender.put("r", tool())
        sender.put("r", None)
    sender.close()
    sender.close()

    assert sender.dropped == 3
    assert sender._untold == {}
    assert caplog.messages == ["the gateway does not answer (ConnectionRefusedError): it is tried again for a while"]


def test_gateway_that_comes_back_gets_what_was_told_meanwhile(refusing: str) -> None:
    with heard_gateway(statuses=lambda number: 0 if number < 6 else 200) as gateway:
        sender = sender_to(gateway.origin)
        sender.put("", tool("a"))
        sender.put("", tool("b"))
        assert sender.flush(GUARD_S)

    assert gateway.names == ["a", "b"]


def test_gateway_that_is_down_is_tried_once_at_a_time_until_it_answers_and_is_told_what_was_lost(
    nothing_lost: None,
) -> None:
    down = MOST_TRIES + 2
    with heard_gateway(statuses=lambda number: 0 if number < down else 200) as gateway:
        sender = sender_to(gateway.origin)
        tried: list[int] = []
        for name in ("a", "b", "c", "d", "e"):
            sender.put("one", tool(name))
            assert sender.flush(GUARD_S)
            tried.append(gateway.requests)

    assert tried == [MOST_TRIES, MOST_TRIES + 1, down, down + 2, down + 3]
    told = [(one.names, one.body.get("lost")) for one in gateway.told]
    assert told == [(["d"], None), ([], {"marks": 3}), (["e"], None)]
    assert (sender.dropped, account.untold()) == (3, {})


class Pauses(threading.Event):
    """Nobody waits, and how long nobody does is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.s.append(timeout)
        return self.is_set()


def test_pauses_between_tries_grow_and_take_about_ten_seconds_together(refusing: str) -> None:
    sender = Sender(gateway_at(refusing))
    pauses = sender._hurry = Pauses()
    for _ in range(2):
        sender.put("", tool())
        assert sender.flush(GUARD_S)

    assert pauses.s == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_nothing_is_tried_again_as_the_process_ends() -> None:
    with heard_gateway(statuses=lambda _: 500) as gateway:
        sender = Sender(gateway_at(gateway.origin), first_pause_s=GUARD_S)
        sender.put("one", tool())
        sender.put("two", tool())
        sender.close()

    assert sender.dropped == 2
    assert gateway.requests == 4


def test_gateway_that_knows_nothing_of_losses_takes_the_marks(nothing_lost: None) -> None:
    with heard_gateway(statuses=lambda number: 400 if number in (0, 2) else 200) as gateway:
        sender = sender_to(gateway.origin)
        for name in ("a", "b"):
            sender.put("", tool(name))
            assert sender.flush(GUARD_S)

    assert gateway.names == ["b"]
    assert account.untold() == {"marks": 1}


def test_gateway_that_answered_again_is_tried_as_often_as_before() -> None:
    answers_at = MOST_TRIES, 2 * MOST_TRIES
    with heard_gateway(statuses=lambda number: 200 if number in answers_at else 500) as gateway:
        sender = sender_to(gateway.origin)
        for name in ("a", "b", "c"):
            sender.put(name, tool(name))
            assert sender.flush(GUARD_S)

    assert gateway.names == ["b", "c"]
    assert gateway.requests == 2 * MOST_TRIES + 1


def test_run_is_told_what_was_lost_of_it_alone_before_it_ends(
    nothing_lost: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with heard_gateway() as gateway:
        sender = sender_to(gateway.origin)
        sender.put("one", tool())
        assert sender.flush(GUARD_S)
        with monkeypatch.context() as full:
            full.setattr(sending, "MOST_WAITING", 0)
            for run in ("one", "one", "two"):
                sender.put(run, tool())
        sender.put("one", None)
        assert sender.flush(GUARD_S)
        assert account.untold() == {"marks": 1}
        sender.close()

    assert [(one.path, one.run, one.names, one.body.get("lost")) for one in gateway.told] == [
        ("/_rotoscope/marks", "one", ["t"], None),
        ("/_rotoscope/marks", "one", [], {"marks": 2}),
        ("/_rotoscope/runs/one/end", "", [], None),
        ("/_rotoscope/marks", "two", [], {"marks": 1}),
    ]
    assert account.untold() == {}


def test_run_of_the_process_is_told_at_its_end_all_that_was_lost_in_it(nothing_lost: None) -> None:
    account.count_at_exit("spans", lambda: 4)
    with heard_gateway() as gateway:
        sender = sender_to(gateway.origin)
        sender.run_of_process = ""
        sender.put("", tool())
        sender.close()
        sender.close()

    assert [one.body.get("lost") for one in gateway.told] == [None, {"spans": 4}]
    assert account.untold() == {}


def test_what_a_gateway_does_not_want_to_know_is_told_by_the_process(nothing_lost: None) -> None:
    with heard_gateway(statuses=lambda number: 400) as gateway:
        sender = sender_to(gateway.origin)
        sender.run_of_process = ""
        sender.put("", tool())
        sender.close()

    assert gateway.requests == 2
    assert account.untold() == {"marks": 1}


def test_what_comes_to_nothing_behind_the_end_of_the_process_counts_once(
    nothing_lost: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "EXIT_S", 0.0)
    held = threading.Event()
    with heard_gateway(statuses=lambda number: 400, held=held) as gateway:
        sender = sender_to(gateway.origin)
        sender.put("", tool())
        assert gateway.first_came.wait(GUARD_S)
        sender.put("", tool())
        sender.close()
        held.set()
        assert sender.flush(GUARD_S)

    assert sender.dropped == 2


def test_queue_is_bounded_and_what_it_has_no_room_for_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    held = threading.Event()
    with heard_gateway(held=held) as gateway:
        sender = sender_to(gateway.origin)
        sender.put("", tool())
        assert gateway.first_came.wait(GUARD_S)
        for _ in range(MOST_WAITING + 5):
            sender.put("", tool())
        sender.put("r", None)
        assert sender.dropped == 5
        held.set()
        assert sender.flush(GUARD_S)

    assert len(gateway.names) == MOST_WAITING + 1
    assert max(len(one.names) for one in gateway.told) == MOST_AT_ONCE
    assert gateway.paths[-1] == "/_rotoscope/runs/r/end"
    assert caplog.messages == ["what agents tell is dropped: more is told than can be sent"]


def test_ends_of_runs_do_not_pile_up_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", no_thread)
    sender = sender_to("http://127.0.0.1:9")
    for _ in range(MOST_WAITING_WITH_ENDS + 5):
        sender.put("r", None)

    assert sender._queue.qsize() == MOST_WAITING_WITH_ENDS
    assert sender.dropped == 0


def test_thread_that_cannot_be_started_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", no_thread)
    sender = sender_to("http://127.0.0.1:9")
    sender.put("", tool())
    sender.put("", None)
    sender.close()

    assert sender.dropped == 1
    assert caplog.messages == ["nothing can be sent (RuntimeError)"]


def test_names_that_cannot_be_sent_as_they_are_are_sent_otherwise() -> None:
    with heard_gateway() as gateway:
        sender = sender_to(gateway.origin)
        sender.put("", tool("\ud800" + "ä" * 2000))
        assert sender.flush(GUARD_S)

    assert gateway.names == ["?" + "ä" * 1023]


def test_what_is_being_sent_is_what_is_still_to_arrive(nothing_lost: None) -> None:
    held, senders, sending_then = threading.Event(), list[Sender](), list[int]()

    def status(_: int) -> int:
        sending_then.append(senders[0]._sending)
        return 200

    with heard_gateway(statuses=status, held=held) as gateway:
        sender = sender_to(gateway.origin)
        senders.append(sender)
        sender.put("zero", tool())
        assert gateway.first_came.wait(GUARD_S)
        for run in ("one", "one", "two"):
            sender.put(run, tool())
        held.set()
        assert sender.flush(GUARD_S)

    assert sending_then == [1, 3, 1]
    assert sender._sending == 0


def test_process_that_is_forked_keeps_no_connection_and_has_lost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with heard_gateway() as gateway:
        sender = sender_to(gateway.origin)
        sender.put("", tool())
        assert sender.flush(GUARD_S)
        assert sender._poster is not None
        connection = sender._poster._connection
        assert connection is not None
        monkeypatch.setattr(sending, "MOST_WAITING", 0)
        sender.put("", tool())
        sender.begin_in_child()

        assert connection.sock.fileno() == -1
        assert (sender.dropped, sender._untold) == (0, {})


FORKS = """
instrument(gateway=sys.argv[1])
recording = recordings.current_recording()
@trace_agent
def parent():
    trace_tool(name="parent")(lambda: None)()
    input()  # its thread is in the midst of a post
    if not os.fork():
        trace_tool(name="child")(lambda: None)()
        recording.flush(60)
        sys.exit(7)  # passes through the agent, which goes on in the parent
    print(os.waitstatus_to_exitcode(os.wait()[1]))
    input()
parent()
"""


def test_forked_process_sends_by_a_thread_of_its_own_while_that_of_its_parent_is_busy() -> None:
    held = threading.Event()
    with heard_gateway(held=held) as gateway, agent_process(FORKS, gateway.origin) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert gateway.first_came.wait(GUARD_S)
        print("fork", file=process.stdin)
        assert process.stdout.readline() == "7\n"
        held.set()
        process.communicate("end\n", timeout=GUARD_S)

    child, parent, *_, end = gateway.told
    assert (child.names, parent.names) == (["child"], ["parent"])
    assert child.body["teller"] != parent.body["teller"]
    assert child.run == parent.run
    assert [path for path in gateway.paths if path.endswith("/end")] == [end.path]


MULTIPROCESSING = """
import multiprocessing
instrument(gateway=sys.argv[1])
def work():
    trace_tool(name="child")(lambda: None)()
@trace_agent
def parent():
    trace_tool(name="parent")(lambda: None)()
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
parent()
"""


def test_process_of_multiprocessing_sends_what_is_left_before_it_ends() -> None:
    with heard_gateway() as gateway:
        ran(MULTIPROCESSING, gateway.origin)

    assert sorted(gateway.names) == ["child", "parent"]
    tools = marks_of(gateway.told, "tool")
    assert len({mark["thread"] for mark in tools}) == 1
    assert gateway.paths[-1].endswith("/end")


UNENDED = """
instrument(gateway=sys.argv[1])
@trace_agent
def endless():
    yield trace_tool(name="t")(lambda: None)()
one, other = endless(), endless()
next(one), next(other)
print("output")
"""


def test_agents_that_did_not_end_are_told_as_the_process_ends() -> None:
    with heard_gateway() as gateway:
        out, err = ran(UNENDED, gateway.origin)

    assert out == "output\n"
    assert err == "as the process ends: agents that have not ended: 2\n"
    assert gateway.names == ["t", "t"]


@pytest.mark.parametrize("way", ["refuses", "hangs", "fails", "breaks off"])
def test_agent_is_the_same_with_a_gateway_that_is_broken(way: str, refusing: str) -> None:
    source = "from rotoscope.sdk import sending\nsending.EXIT_S = 0.2\nagent_of('t')()\nprint('output')"
    if way == "refuses":
        out, err = ran(source, environment={"ROTOSCOPE_GATEWAY": refusing})
    else:
        statuses = {"fails": 500, "breaks off": 0}
        held = threading.Event()
        with heard_gateway(statuses=lambda _: statuses.get(way, 200), held=held) as gateway:
            if way != "hangs":
                held.set()
            out, err = ran(source, environment={"ROTOSCOPE_GATEWAY": gateway.origin})
            held.set()

    assert out == "output\n"
    assert err.splitlines()[-1] == "as the process ends: marks that did not reach the gateway: 1"


def test_sender_keeps_no_content_in_what_it_logs(caplog: pytest.LogCaptureFixture, refusing: str) -> None:
    caplog.set_level(logging.DEBUG)
    sender = sender_to(f"{refusing}/token/canary-token")
    sender.put("canary-run", tool("canary-tool"))
    sender.close()

    assert "canary" not in caplog.text
