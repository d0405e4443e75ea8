"""`scripts/coding_agents.sh`: what is missing is told in one sentence, and what is there is left alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINS = ROOT / "scripts/coding_agents"
TOOLS = ("basename", "cat", "cksum", "cp", "dirname", "grep", "head", "mkdir", "sh")

Install = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Run the script in a small checkout, on a PATH that holds no npm but the one that the test puts there."""
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"this machine has no {tool}"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(checkout / "scripts/coding_agents.sh"), *arguments],
            cwd=checkout,
            env={"PATH": str(tools), "HOME": str(tmp_path)},
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def put_npm(tmp_path: Path, script: str) -> None:
    """Put a stand-in for npm that does this."""
    path = tmp_path / "tools/npm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a failed run says."""
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_missing_npm_leaves_the_agent_out(install: Install) -> None:
    said = sentence(install("codex", "agents/codex"))

    assert said == "the coding agent codex is left out: it needs Node 20 with npm, which was not found"


def test_an_agent_that_is_not_pinned_is_refused_with_those_that_are(install: Install) -> None:
    said = sentence(install("telnet", "agents/telnet"))

    assert said.startswith("the coding agent telnet is left out: expected one of ")
    assert set(said.partition("one of ")[2].split()) == {path.name for path in PINS.iterdir()}


def test_what_npm_says_is_told(install: Install, tmp_path: Path) -> None:
    put_npm(tmp_path, "echo npm error code E404 >&2; exit 1")

    said = sentence(install("codex", "agents/codex"))

    assert "it could not be installed: npm error code E404 (all that was said is in agents/codex.log)" in said


def test_an_installed_agent_is_left_alone_until_its_versions_change(install: Install, tmp_path: Path) -> None:
    put_npm(tmp_path, f'echo "$*" >>{tmp_path}/calls')
    pins = tmp_path / "checkout/scripts/coding_agents/codex/package.json"

    first, again = install("codex", "agents/codex"), install("codex", "agents/codex")
    once = (tmp_path / "calls").read_text().splitlines()
    pins.write_text(pins.read_text().replace("0.", "1."))
    changed = install("codex", "agents/codex")

    assert [first.returncode, again.returncode, changed.returncode] == [0, 0, 0]
    assert len(once) == 1
    assert "--ignore-scripts" in once[0]
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_every_agent_has_a_module_an_exact_version_and_a_lock() -> None:
    names = {path.name for path in PINS.iterdir()}
    modules = {path.stem for path in ROOT.glob("tests/coding_agents/*.py") if "\nAGENT = " in path.read_text()}

    assert {name.replace("-", "_") for name in names} == modules
    for name in names:
        ((package, version),) = json.loads((PINS / name / "package.json").read_text())["dependencies"].items()
        locked = json.loads((PINS / name / "package-lock.json").read_text())["packages"]
        assert locked[f"node_modules/{package}"]["version"] == version
        assert all("integrity" in one for path, one in locked.items() if path and not one.get("link"))
    assert os.access(ROOT / "scripts/coding_agents.sh", os.X_OK)
    assert os.access(ROOT / "scripts/offline.sh", os.X_OK)
