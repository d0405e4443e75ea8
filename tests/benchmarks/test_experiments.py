from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments import command_of, experiments

NAMES = ("vllm-cliff", "llama-cliff", "mocker-routers")


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_is_a_sweep_over_a_server_with_a_port_of_its_own(name: str) -> None:
    experiment = experiments(vllm=Path("v"), dynamo=Path("d"))[name]

    command = command_of(experiment, trace=Path("t.json"), folder=Path("f"))

    server = command[command.index("--server-command") + 1]
    assert command[:4] == ["sweep", "t.json", "-o", "f"]
    assert str(experiment.program) in server
    assert "{port}" in server


def test_settings_have_their_places_in_the_command() -> None:
    found = experiments(vllm=Path("v"), dynamo=Path("d"))

    assert "{cache_ram}" in command_of(found["llama-cliff"], trace=Path("t"), folder=Path("f"))[9]
    assert "{router}" in command_of(found["mocker-routers"], trace=Path("t"), folder=Path("f"))[9]
