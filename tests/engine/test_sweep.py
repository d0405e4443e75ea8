"""A sweep over a real engine that is started for each point: where its cache ends, and what host memory behind it gives."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from engine.llama_server import program

from rotoscope.cli import main
from rotoscope.replayer.reading import read_summary
from rotoscope.testing import make_trace
from rotoscope.traces import save


def test_host_memory_pushes_back_the_cliff(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four slots hold four agents; eight agents find nothing there again, and all of it with 64 MiB behind the slots."""
    save(make_trace(turns=4, isl=600, new=200, osl=8, system=0, tool_ms=1.0), tmp_path / "run.trace.json")
    server = shlex.join([str(program()), "-m", str(tiny_model)])
    options = "--host 127.0.0.1 --port {port} -t 1 -np 4 -c 8192 --no-kv-unified --no-ui --cache-ram {ram}"
    words = ["sweep", str(tmp_path / "run.trace.json"), "--set", "ram=0,64", "--server-command", f"{server} {options}"]
    words += ["--concurrency", "2,8", "--sessions-per-user", "3", "--gaps", "none", "--skip-gate", "lag"]
    words += ["-o", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["rotoscope", *words])

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 0, capsys.readouterr().err
    shares = {}
    for place in (tmp_path / "out/points").iterdir():
        cache = read_summary(place).cache
        assert cache.hit_rate is not None
        assert cache.optimal_hit_rate
        shares[place.name.partition("_")[2]] = cache.hit_rate / cache.optimal_hit_rate
    assert {name: share > 0.9 for name, share in shares.items()} == {
        "c=2_ram=0": True,
        "c=2_ram=64": True,
        "c=8_ram=0": False,
        "c=8_ram=64": True,
    }
    assert shares["c=8_ram=0"] < 0.3
