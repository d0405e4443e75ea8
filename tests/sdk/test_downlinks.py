"""What other processes tell, and who is not listened to."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from event_loops import GUARD_S

from rotoscope.recorder.marks import JoinMark, Mark
from rotoscope.sdk import kept_here
from rotoscope.sdk.downlinks import Downlinks, _is_ours
from rotoscope.sdk.frames import packed, written_mark
from rotoscope.sdk.keepers import Keeper
from rotoscope.sdk.uplinks import Address, KeptElsewhere, Uplink

PATH, BODY = "/v1/chat/completions", b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}'


@dataclass
class Heard:
    """A run that keeps what it is told."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def tell(self, mark: Mark) -> None:
        self.told.append(("mark", mark))

    def call(self, path: str, body: bytes, *, headers: Mapping[str, str], at_s: float, asks_usage: bool) -> HeardCall:
        self.told.append(("call", path, body, headers, at_s, asks_usage))
        return HeardCall(self.told)

    def end(self) -> None:
        self.told.append(("end of run",))

    def environment(self) -> dict[str, str]:
        return {}


@dataclass
class HeardCall:
    """A call of it."""

    told: list[tuple[Any, ...]]
    body: bytes = b""

    def end(self, at_s: float) -> bytes:
        self.told.append(("end", at_s))
        return b""

    def take_back(self) -> None:
        self.told.append(("take back",))

    def response(self, status: int, content_type: str, at_s: float) -> None:
        self.told.append(("response", status, content_type, at_s))

    def chunk(self, data: bytes, at_s: float) -> bytes:
        self.told.append(("chunk", data, at_s))
        return data

    def failed(self, at_s: float) -> None:
        self.told.append(("failed", at_s))

    def cancelled(self, at_s: float) -> None:
        self.told.append(("cancelled",))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def downlinks(heard: Heard) -> Iterator[Downlinks]:
    def keeper_of(name: str) -> Keeper | None:
        return heard if name == "run" else None

    downlinks = Downlinks(keeper_of)
    yield downlinks
    downlinks.close()


@pytest.fixture
def uplink(downlinks: Downlinks) -> Iterator[Uplink]:
    uplink = Uplink(downlinks.address)
    yield uplink
    uplink.begin_anew()


def test_what_happens_there_is_told_here(heard: Heard, downlinks: Downlinks, uplink: Uplink) -> None:
    kept = KeptElsewhere(uplink, "run")
    kept.tell(JoinMark("r", 1.0))
    call = kept.call(PATH, BODY, headers={"a": "b"}, at_s=1.0, asks_usage=True)
    assert call is not None
    assert b"include_usage" in call.body
    call.take_back()
    call.response(200, "text/event-stream", 2.0)
    assert call.chunk(b"data: {}\n\n", 3.0) == b"data: {}\n\n"
    call.end(4.0)
    downlinks.settle(GUARD_S)

    assert heard.told == [
        ("mark", JoinMark("r", 1.0)),
        ("call", PATH, BODY, {"a": "b"}, 1.0, True),
        ("take back",),
        ("response", 200, "text/event-stream", 2.0),
        ("chunk", b"data: {}\n\n", 3.0),
        ("end", 4.0),
    ]


def test_what_was_asked_for_is_held_back_there(downlinks: Downlinks, uplink: Uplink) -> None:
    call = KeptElsewhere(uplink, "run").call(PATH, BODY, headers={}, at_s=1.0, asks_usage=True)
    assert call is not None
    call.response(200, "text/event-stream", 2.0)
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'

    assert call.chunk(usage + b"data: [DONE]\n\n", 3.0) == b"data: [DONE]\n\n"


def test_nobody_waits_for_an_answer_to_a_process_that_is_gone(
    heard: Heard, downlinks: Downlinks, uplink: Uplink
) -> None:
    KeptElsewhere(uplink, "run").call(PATH, BODY, headers={}, at_s=1.0, asks_usage=True)
    uplink.begin_anew()
    downlinks.settle(GUARD_S)

    assert [told[0] for told in heard.told] == ["call", "cancelled"]


def test_runs_that_have_ended_take_nothing_in_and_calls_are_counted(
    heard: Heard, downlinks: Downlinks, uplink: Uplink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_here, "lateness", lateness := kept_here._Lateness())
    other = KeptElsewhere(uplink, "other")
    other.tell(JoinMark("r", 1.0))
    call = other.call(PATH, BODY, headers={}, at_s=1.0, asks_usage=True)
    assert call is not None
    call.failed(2.0)
    downlinks.settle(GUARD_S)

    assert heard.told == []
    assert lateness.calls == 1


@pytest.mark.parametrize("first", [["hello", "another"], ["hello", None], ["mark", "run"], b"\xff" * 8])
def test_who_does_not_know_the_token_is_not_heard(heard: Heard, downlinks: Downlinks, first: Any) -> None:
    mark = packed(["mark", "run", *written_mark(JoinMark("r", 1.0))])
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(GUARD_S)
        stranger.connect(downlinks.address.of_socket)
        stranger.sendall((first if isinstance(first, bytes) else packed(first)) + mark)
        downlinks.settle(GUARD_S)

        assert heard.told == []


class Connected:
    """Somebody at the socket: process 7 of user 1000 in group 100."""

    def getsockopt(self, *_: int) -> bytes:
        return struct.pack("3i", 7, 1000, 100)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who connects")
@pytest.mark.parametrize(("user", "is_ours"), [(1000, True), (100, False), (7, False), (0, False)])
def test_who_connects_is_told_by_the_user(user: int, is_ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: user)

    assert _is_ours(cast("socket.socket", Connected())) == is_ours


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who connects")
def test_another_user_who_knows_the_token_is_not_heard(
    heard: Heard, downlinks: Downlinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: -1)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(downlinks.address.of_socket)
        with contextlib.suppress(OSError):
            stranger.sendall(packed(["hello", downlinks.address.token]))
            stranger.sendall(packed(["mark", "run", *written_mark(JoinMark("r", 1.0))]))
        downlinks.settle(GUARD_S)

    assert heard.told == []


def test_the_token_is_told_by_a_greeting_alone(heard: Heard, downlinks: Downlinks) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(downlinks.address.of_socket)
        with contextlib.suppress(OSError):
            stranger.sendall(packed(["mark", downlinks.address.token]))
            stranger.sendall(packed(["mark", "run", *written_mark(JoinMark("r", 1.0))]))
        downlinks.settle(GUARD_S)

    assert heard.told == []


def test_calls_that_are_over_are_not_cancelled_by_who_leaves(
    heard: Heard, downlinks: Downlinks, uplink: Uplink
) -> None:
    kept = KeptElsewhere(uplink, "run")
    for end in ("end", "failed", "cancelled"):
        call = kept.call(PATH, BODY, headers={}, at_s=1.0, asks_usage=True)
        assert call is not None
        getattr(call, end)(2.0)
    uplink.begin_anew()
    downlinks.settle(GUARD_S)

    assert [told[0] for told in heard.told] == ["call", "end", "call", "failed", "call", "cancelled"]


def test_all_that_was_told_before_is_taken_in_however_it_came(
    heard: Heard, downlinks: Downlinks, uplink: Uplink, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_in, may_go_on = threading.Event(), threading.Event()

    def tell(mark: Mark) -> None:
        is_in.set()
        assert may_go_on.wait(GUARD_S)
        heard.told.append(("mark", mark))

    monkeypatch.setattr(heard, "tell", tell)
    KeptElsewhere(uplink, "run").tell(JoinMark("first", 1.0))
    assert is_in.wait(GUARD_S)
    other = Uplink(downlinks.address)
    KeptElsewhere(other, "run").tell(JoinMark("second", 2.0))
    settling = threading.Thread(target=downlinks.settle, args=(GUARD_S,))
    settling.start()
    may_go_on.set()
    settling.join(GUARD_S)

    assert [told[1].region for told in heard.told] == ["first", "second"]
    other.begin_anew()


def test_the_thread_that_listens_does_not_wait_for_itself(
    heard: Heard, downlinks: Downlinks, uplink: Uplink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(mark: Mark) -> None:  # as where the garbage collector ends an agent's run there
        downlinks.settle(GUARD_S)
        heard.told.append(("mark", mark))

    monkeypatch.setattr(heard, "tell", tell)
    KeptElsewhere(uplink, "run").tell(JoinMark("r", 1.0))
    downlinks.settle(GUARD_S / 2)

    assert heard.told == [("mark", JoinMark("r", 1.0))]


def test_nobody_waits_where_nobody_listens_any_more() -> None:
    downlinks = Downlinks(lambda _: None)
    downlinks.close()

    downlinks.settle(0)

    assert downlinks._waiting == []


def test_no_descriptor_for_another_process_is_no_reason_to_be_busy(
    downlinks: Downlinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, "too many open files")

    slept: list[float] = []
    with monkeypatch.context() as full:
        full.setattr(downlinks, "_socket", Full())
        full.setattr(time, "sleep", slept.append)
        downlinks._accept()

    assert slept == [0.05]


def test_nothing_is_left_open_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        Downlinks(lambda _: None)


def test_one_that_tells_nonsense_does_not_hurt_another(heard: Heard, downlinks: Downlinks, uplink: Uplink) -> None:
    nonsense = Uplink(downlinks.address)
    for head in (["mark", "run", "no kind"], ["mark", "run", *written_mark(JoinMark("no", 1.0))]):
        nonsense.send(head)
    KeptElsewhere(uplink, "run").tell(JoinMark("r", 1.0))
    downlinks.settle(GUARD_S)
    nonsense.begin_anew()

    assert heard.told == [("mark", JoinMark("r", 1.0))]


def test_address_of_this_process_leads_nowhere(downlinks: Downlinks) -> None:
    text = str(downlinks.address)

    assert Address.read(text) is None
    assert Address.read(text.replace(f":{os.getpid()}", ":1")) == Address(
        downlinks.address.name, downlinks.address.token, 1
    )
    assert [Address.read(x) for x in ("", "a", "a:b", "a:b:c")] == [None] * 4
    assert downlinks.address.token not in repr(downlinks.address)
