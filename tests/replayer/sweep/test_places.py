from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
import started_server

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.server_process import Patience
from rotoscope.replayer.servers import Servers
from rotoscope.replayer.sweep import places
from rotoscope.replayer.sweep.places import OnServers, Simulated
from rotoscope.testing import make_trace
from rotoscope.traces.errors import UnusableInput

TRACES = [make_trace(turns=2, isl=200, osl=5, system=0)]


def on_server(command: str, *settings: str) -> OnServers:
    parsed = Servers.parse(
        url=None,
        command=f"{shlex.join([sys.executable, started_server.__file__])} {{port}} {command}",
        settings=dict.fromkeys(settings, ("1",)),
        patience=Patience(ready_s=120.0),
    )
    return OnServers(parsed)


def test_a_replay_has_a_server_of_its_own_with_its_settings(tmp_path: Path) -> None:
    said: list[str] = []
    place = on_server("{gpus} {max_batch} {concurrency} tells {pid}", "gpus", "max_batch", "pid")
    options = ReplayOptions(url=place.any_url, sessions=4, concurrency=2, preflight=False, folder=tmp_path / "out")
    values = {"gpus": "4", "max_batch": "16", "pid": str(tmp_path / "pid")}

    summary = place.perform(TRACES, options, values, say=said.append, watch=None)

    assert summary.sessions.ok == 4
    assert (summary.setup.gpus, summary.setup.max_batch) == (4, 16)
    assert said[0].startswith("the server is ready")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.parametrize(
    ("values", "max_batch"),
    [
        ({"max_batch": "16"}, 16),
        ({"max_batch": "16", "replicas": "2"}, 32),
        ({"max_batch": "0"}, None),
        ({"max_batch": "auto", "replicas": "2"}, None),
        ({"replicas": "2"}, None),
    ],
)
def test_the_batch_of_a_server_is_that_of_all_its_replicas(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], max_batch: int | None
) -> None:
    told: list[ReplayOptions] = []
    monkeypatch.setattr(places, "replay", lambda traces, options, **how: told.append(options))
    place = OnServers(Servers(url="http://127.0.0.1:1", command=None, patience=Patience()))

    place.perform(TRACES, ReplayOptions(), values, say=lambda text: None, watch=None)

    assert told[0].max_batch == max_batch


def test_a_simulation_needs_no_server(tmp_path: Path) -> None:
    place = Simulated({"max_batch": ("2", "8"), "gpus": ("2",)})
    options = ReplayOptions(sessions=4, concurrency=2, folder=tmp_path / "out")

    summary = place.perform(TRACES, options, {"max_batch": "2", "gpus": "2"}, say=lambda text: None, watch=None)

    assert summary.setup.simulated
    assert summary.setup.gpus == 2
    assert summary.sessions.ok == 4


def test_settings_of_every_point_are_checked_before_the_first() -> None:
    with pytest.raises(UnusableInput, match="no setting 'bach'"):
        Simulated({"bach": ("2",)})
    with pytest.raises(UnusableInput, match="at least 1"):
        Simulated({"max_batch": ("2", "0")})


def test_another_command_is_another_place() -> None:
    assert on_server("a").identity != on_server("b").identity
    assert on_server("a").identity == on_server("a").identity
