"""`scripts/clients.sh`: what is missing is told in one sentence, and what is there is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "scripts/clients"
TOOLS = ("basename", "cat", "chmod", "cksum", "cut", "dirname", "grep", "head", "mkdir", "sed", "sh", "tail")

Install = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Run the script in a small checkout, on a PATH that holds no Python but those the test puts there."""
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"this machine has no {tool}"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(tools), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "none")}
        return subprocess.run(
            [str(checkout / "scripts/clients.sh"), *arguments],
            cwd=checkout,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def put_python(tmp_path: Path, pip: str) -> None:
    """Put a stand-in for Python 3.11 whose environments hold a Python that does `pip` for any command, and no uv."""
    make_venv = f"mkdir -p $3/bin && printf '%s' '#!/bin/sh\n{pip}\n' >$3/bin/python && chmod +x $3/bin/python"
    path = tmp_path / "tools/python3.11"
    path.write_text(f'#!/bin/sh\ncase "$*" in --version) echo "Python 3.11.1" ;; *venv*) {make_venv} ;; esac\n')
    path.chmod(0o755)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a failed run says."""
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_missing_python_leaves_the_client_out(install: Install) -> None:
    said = sentence(install("openai", "environments/openai"))

    assert said == "the client openai is left out: it needs Python 3.11, which was not found"


def test_a_client_that_is_not_listed_is_refused_with_those_that_are(install: Install) -> None:
    said = sentence(install("telnet", "environments/telnet"))

    assert said.startswith("the client telnet is left out: expected one of ")
    assert set(said.partition("one of ")[2].split()) == {path.stem for path in LISTS.glob("*.txt")}


def test_what_pip_says_is_told_where_there_is_no_uv(install: Install, tmp_path: Path) -> None:
    put_python(tmp_path, "echo ERROR: no such thing; exit 1")

    said = sentence(install("openai", "environments/openai"))

    assert "it could not be installed: ERROR: no such thing (all that was said is in environments/openai.log)" in said


def test_an_installed_client_is_left_alone_until_its_versions_change(install: Install, tmp_path: Path) -> None:
    put_python(tmp_path, 'echo "$*" >>$0.calls')
    calls, versions = tmp_path / "checkout/venv/bin/python.calls", tmp_path / "checkout/scripts/clients/openai.txt"

    first, again = install("openai", "venv"), install("openai", "venv")
    once = calls.read_text().splitlines()
    versions.write_text(versions.read_text() + "colorama==0.4.6\n")
    changed = install("openai", "venv")

    assert [first.returncode, again.returncode, changed.returncode] == [0, 0, 0]
    assert len(once) == 1
    assert "--no-deps --requirement scripts/clients/openai.txt" in once[0]
    assert len(calls.read_text().splitlines()) == 2


def test_every_list_has_an_agent_and_exact_versions() -> None:
    agents = {path.stem.removesuffix("_agent").replace("_", "-") for path in ROOT.glob("tests/clients/*_agent.py")}
    lines = [line for path in LISTS.rglob("*.txt") for line in path.read_text().splitlines()]

    assert {path.stem for path in LISTS.glob("*.txt")} == agents
    assert [line for line in lines if "==" not in line] == []
    assert os.access(ROOT / "scripts/clients.sh", os.X_OK)
