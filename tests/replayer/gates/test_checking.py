from __future__ import annotations

from gate_evidence import evidence_of
from replay_doubles import make_session_result

from rotoscope.replayer.gates.checking import check_gates
from rotoscope.replayer.gates.gate import GATES


def test_every_gate_is_in_the_verdict_in_its_order() -> None:
    assert tuple(gate.name for gate in check_gates(evidence_of()).gates) == GATES


def test_a_gate_that_is_skipped_fails_nothing() -> None:
    evidence = evidence_of(sessions=[make_session_result(0), make_session_result(1, status="failed")])

    assert [gate.name for gate in check_gates(evidence).failed] == ["errors", "jobs"]
    skipped = check_gates(evidence, skipped=("errors", "jobs"))
    assert skipped.valid
    assert len(skipped.gates) == len(GATES)
    assert [gate.says for gate in skipped.gates if gate.name == "errors"] == ["skipped, as asked for by --skip-gate"]
