"""A process whose recorder is gone goes on."""

from __future__ import annotations

import os
import socket

import pytest

from rotoscope.recorder.marks import JoinMark
from rotoscope.sdk import uplinks
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.uplinks import Address, Joined, Uplink, joined

NOWHERE = Address("@rotoscope-nobody-listens-here", "token", 1)
BODY = b'{"model":"m","messages":[{"role":"user","content":"secret"}]}'


def test_nothing_is_told_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    recording = Joined(Uplink(NOWHERE))
    run = recording.begin_run()
    run.tell(JoinMark("r", 1.0))
    outgoing = recording.hear(Request("POST", "http://server/v1/chat/completions", {}, BODY))
    assert outgoing is not None
    outgoing.response(200, "application/json")
    assert recording.uplink.lost == 2

    assert outgoing.body is BODY
    assert outgoing.chunk(b"{}") == b"{}"
    assert outgoing.end() == b""
    assert [record.message for record in caplog.records] == [
        "the process that records cannot be told any more (ConnectionRefusedError)"
    ]


def test_forked_process_has_lost_nothing_yet() -> None:
    uplink = Uplink(NOWHERE)
    uplink.send(["mark"])
    assert uplink.lost == 1
    uplink.begin_anew()

    assert uplink.lost == 0


def test_who_takes_nothing_of_what_it_is_told_is_told_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplinks, "PATIENCE_S", 0.01)
    address = Address(f"@rotoscope-{os.urandom(8).hex()}", "token", 1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address.of_socket)
        listener.listen()
        uplink = Uplink(address)
        uplink.send(["chunk", 0, 1.0], b"x" * (1 << 24))
        uplink.send(["mark"])

    assert uplink.lost == 1


def test_run_that_the_environment_of_the_other_process_named_is_not_that_of_one_forked_off_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROTOSCOPE_RUN", "that of a gateway")

    assert Joined(Uplink(NOWHERE)).begin_run().name == ""


def test_environment_leads_to_a_process_and_a_run() -> None:
    environment = {"ROTOSCOPE_PROCESS": str(NOWHERE), "ROTOSCOPE_RUN": "a run"}
    recording = joined(environment)
    assert recording is not None

    assert recording.join_run().environment() == environment
    assert joined({}) is None


def test_the_run_is_that_of_the_environment_when_an_agent_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Joined(Uplink(NOWHERE))
    monkeypatch.setenv("ROTOSCOPE_RUN", "a run")

    assert recording.join_run().environment()["ROTOSCOPE_RUN"] == "a run"
    assert recording.begin_run().environment()["ROTOSCOPE_RUN"] == "a run"
