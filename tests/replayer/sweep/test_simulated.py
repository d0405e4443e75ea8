from __future__ import annotations

import pytest

from rotoscope.replayer.simulator.constants import QWEN3_235B_GB200
from rotoscope.replayer.simulator.server import SimulatorOptions
from rotoscope.replayer.sweep.simulated import settings_of, simulator_of
from rotoscope.traces.errors import UnusableInput


def test_settings_are_those_of_the_simulator() -> None:
    given = {"max_batch": "32", "host_blocks": "0", "router": "kv", "replicas": "2", "timing": "qwen3-235b-gb200"}

    assert simulator_of(given) == SimulatorOptions(
        max_batch=32, host_blocks=0, router="kv", replicas=2, timing=QWEN3_235B_GB200
    )
    assert simulator_of({"gpus": "4"}) == SimulatorOptions()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"blocks": "64", "host_blocks": "7", "block_size": "8", "replicas": "2", "max_batch": "32", "seed": "5"},
        {"router": "kv", "profile": "sglang", "timing": "qwen3-235b-gb200"},
    ],
)
def test_a_simulator_is_told_by_the_settings_that_make_it(settings: dict[str, str]) -> None:
    assert settings_of(simulator_of(settings)) == settings


def test_neither_the_name_of_a_model_nor_a_default_is_told() -> None:
    assert settings_of(simulator_of({"model": "mine", "max_batch": "16", "timing": "llama-server-tiny"})) == {}


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
