"""What the gates say, for people."""

from __future__ import annotations

from collections.abc import Iterator

from rotoscope.replayer.gates.gate import Validity


def invalid_lines(validity: Validity | None) -> Iterator[str]:
    """Yield that a run is not valid and why, a line a gate that failed; nothing of a valid one."""
    failed = validity.failed if validity else ()
    if validity and failed:
        yield f"INVALID: {len(failed)} of {len(validity.gates)} gates failed"
    for gate in failed:
        yield f"  {gate.name}: {gate.says}"


def validity_row(validity: Validity) -> tuple[str, str, str]:
    """Return a row of a table: whether the run is valid, and how many gates say so."""
    passed = sum(gate.passed is True for gate in validity.gates)
    names = ", ".join(gate.name for gate in validity.unchecked)
    unchecked = f"; not checked: {names}" if names else ""
    return (
        "validity",
        "valid" if validity.valid else "INVALID",
        f"{passed} of {len(validity.gates)} gates passed{unchecked}",
    )
