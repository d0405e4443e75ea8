from __future__ import annotations

from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.notes import Notes, notes_once


def test_a_note_is_said_once_and_kept() -> None:
    said: list[str] = []
    notes = Notes(said.append)

    notes.add("a")
    notes.add("b")
    notes.add("a")

    assert said == ["note: a", "note: b"]
    assert notes.kept == ("a", "b")


def test_what_a_server_says_is_said_once_a_kind_and_never_kept() -> None:
    said: list[str] = []
    notes = Notes(said.append)

    notes.hear(FailureKind.BAD_REQUEST, "your prompt")
    notes.hear(FailureKind.BAD_REQUEST, "another")
    notes.hear(FailureKind.REFUSED, "")

    assert said == ["request failed: bad_request: your prompt", "request failed: refused"]
    assert notes.kept == ()


def test_several_runs_in_a_row_say_a_note_once_and_all_else_each_time() -> None:
    said: list[str] = []
    say = notes_once(said.append)

    for text in ("point 1", "note: a", "retried", "point 2", "note: a", "note: b", "retried"):
        say(text)

    assert said == ["point 1", "note: a", "retried", "point 2", "note: b", "retried"]
