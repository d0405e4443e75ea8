from __future__ import annotations

import pytest

from rotoscope.replayer.simulator.constants import QWEN3_235B_GB200
from rotoscope.replayer.simulator.server import SimulatorOptions
from rotoscope.replayer.sweep.simulated import simulator_of
from rotoscope.traces.errors import UnusableInput


def test_settings_are_those_of_the_simulator() -> None:
    given = {"max_batch": "32", "host_blocks": "0", "router": "kv", "replicas": "2", "timing": "qwen3-235b-gb200"}

    assert simulator_of(given) == SimulatorOptions(
        max_batch=32, host_blocks=0, router="kv", replicas=2, timing=QWEN3_235B_GB200
    )
    assert simulator_of({"gpus": "4"}) == SimulatorOptions()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch": "8"}, "no setting 'batch': there are blocks"),
        ({"port": "8"}, "no setting 'port'"),
        ({"max_batch": "many"}, "a whole number, not 'many'"),
        ({"max_batch": "0"}, "at least 1"),
        ({"router": "random"}, "unknown router"),
        ({"profile": "mine"}, "mine"),
        ({"timing": "fast"}, "fast"),
    ],
)
def test_other_settings_are_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        simulator_of(settings)
