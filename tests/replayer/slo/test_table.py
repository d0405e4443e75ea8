from __future__ import annotations

import pytest

from rotoscope.replayer.bootstrap import Bounds
from rotoscope.replayer.slo.objectives import Objective, Reached
from rotoscope.replayer.slo.run import Probe, Searched
from rotoscope.replayer.slo.search import Border
from rotoscope.replayer.slo.table import answer, headings, probe_rows

LIMIT = Objective(95, "ttft", 2.0)


def probe(
    agents: int, value_s: float | None, *, spread_s: float = 0.1, is_valid: bool = True, repeat: int = 1
) -> Probe:
    bounds = None if value_s is None else Bounds(value_s - spread_s, value_s + spread_s)
    return Probe(agents, repeat, is_valid, (Reached(LIMIT, value_s, bounds),))


def test_rows_stand_by_number_of_agents() -> None:
    searched = Searched(2, [probe(4, 2.5), probe(2, 0.5), probe(4, 2.05, repeat=2), probe(3, None, is_valid=False)])

    assert headings([LIMIT]) == ("agents", "run", "p95_ttft <= 2.000 s", "valid", "met")
    assert [*probe_rows(searched)] == [
        ("2", "1", "500.0 ms (400.0 ms to 600.0 ms)", "yes", "yes"),
        ("3", "1", "nothing measured", "no", "no"),
        ("4", "1", "2.500 s (2.400 s to 2.600 s)", "yes", "no"),
        ("4", "2", "2.050 s (1.950 s to 2.150 s)", "yes", "no, not sure"),
    ]


@pytest.mark.parametrize(
    ("probes", "border", "says"),
    [
        ([probe(2, 1.0), probe(3, 3.0)], Border(2, 3), ["2 agents meet", "3 do not: 0 of 1 run"]),
        ([probe(2, 1.0)], Border(2, None), ["2 agents meet", "more than 8 were not tried"]),
        ([probe(1, 9.0)], Border(None, 1), ["not even 1 agent meets"]),
        ([probe(2, 1.95), probe(3, 3.0)], Border(2, 3), ["2 agents", "3 do not", "is not certain"]),
        (
            [probe(2, 1.0), probe(3, 1.0, is_valid=False)],
            Border(2, 3),
            ["2 agents", "of 3 it is not known: 1 of 1 run not valid"],
        ),
        ([probe(1, 1.0, is_valid=False)], Border(None, 1), ["of 1 it is not known"]),
        ([probe(2, 1.0)], None, ["interrupted"]),
    ],
)
def test_the_answer_says_what_is_certain(probes: list[Probe], border: Border | None, says: list[str]) -> None:
    sentences = [*answer(Searched(1, probes, border), most=8)]

    assert len(sentences) == len(says)
    assert all(part in sentence for part, sentence in zip(says, sentences, strict=True))
