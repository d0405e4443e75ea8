"""A run that is kept in this process."""

from __future__ import annotations

import json
from pathlib import Path

from loopback import CHAT, WHOLE

from rotoscope.recorder.recorded_run import begin_in
from rotoscope.sdk.kept_here import KeptHere


def test_a_call_is_over_once_however_often_that_is_said(tmp_path: Path) -> None:
    called: list[KeptHere] = []
    kept = KeptHere(begin_in(tmp_path, None), ended=lambda _: None, called=called.append)
    call = kept.call(CHAT, json.dumps(WHOLE).encode(), headers={}, at_s=1.0, asks_usage=True)
    assert call is not None
    call.cancelled(2.0)
    call.failed(3.0)
    assert call.end(4.0) == b""

    assert called == [kept]
    kept.finish()


def test_only_calls_that_a_server_answers_are_to_be_in_a_trace(tmp_path: Path) -> None:
    recorded = begin_in(tmp_path, None)
    kept = KeptHere(recorded, ended=lambda _: None)
    for status in (200, 500):
        call = kept.call(CHAT, json.dumps(WHOLE).encode(), headers={}, at_s=1.0, asks_usage=True)
        assert call is not None
        call.response(status, "application/json", 2.0)

    assert (recorded.calls, recorded.answered) == (2, 1)
    kept.finish()
