from __future__ import annotations

from io import BytesIO

from rotoscope.recorder.hashing import new_key
from rotoscope.recorder.run import Run
from rotoscope.traces.journal_files import JournalWriter


def test_tools_are_numbered_by_first_appearance_and_forgotten_at_the_end() -> None:
    run = Run(JournalWriter(BytesIO()), key=new_key(), campaign=None)

    assert [run.tool(name) for name in ("read", "write", "read", "\udc80")] == [1, 2, 1, 3]
    run.close()
    assert run.is_closed
    assert run._tools == {}


def test_a_trouble_is_told_once() -> None:
    run = Run(JournalWriter(BytesIO()), key=new_key(), campaign=None)
    run.warn("a")
    run.warn("a")

    assert run.trouble == ["a"]
