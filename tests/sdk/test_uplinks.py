"""A process whose recorder is gone goes on."""

from __future__ import annotations

import pytest

from rotoscope.recorder.marks import JoinMark
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
