from __future__ import annotations

from rotoscope.traces.formats.fidelity import Aspect, Fidelity

LENGTHS = Aspect("prompt lengths", "kept")
TOOLS = Aspect("tool names", "lost", "the format has none", "tools")


def test_aspects_are_counted_and_those_that_never_applied_are_not_reported() -> None:
    fidelity = Fidelity()
    fidelity.note(LENGTHS, 3)
    fidelity.note(LENGTHS)
    fidelity.note(TOOLS, 0)

    assert fidelity.of_verdict("kept") == [(LENGTHS, 4)]
    assert fidelity.of_verdict("lost") == []
