"""`scripts/engines.sh`: what is missing is told in one sentence, and what is there is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("cat", "cksum", "cut", "dirname", "grep", "head", "mkdir", "sed", "sh", "sort", "tail")

Install = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Run the script in a small checkout, on a PATH that holds no Python but those the test puts there."""
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"this machine has no {tool}"))
    put(tmp_path, "uname", "echo Linux x86_64")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(tools), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "none")}
        return subprocess.run(
            [str(checkout / "scripts/engines.sh"), *arguments],
            cwd=checkout,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def put(tmp_path: Path, name: str, body: str) -> None:
    """Put a program on the test's PATH."""
    path = tmp_path / "tools" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def put_python(tmp_path: Path, version: str, pip: str) -> None:
    """Put a stand-in for a Python whose environments hold a Python that does `pip` for any command."""
    made = f"#!/bin/sh\n{pip}\n"
    make_venv = f"mkdir -p $3/bin && printf '%s' '{made}' >$3/bin/python && chmod +x $3/bin/python"
    put(
        tmp_path,
        f"python{version}",
        f'case "$*" in --version) echo "Python {version}.1" ;; *venv*) {make_venv} ;; esac',
    )
    (tmp_path / "tools/chmod").symlink_to(shutil.which("chmod") or "/bin/chmod")


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a failed run says."""
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("engine", "version"), [("vllm", "3.11"), ("dynamo", "3.12")])
def test_a_missing_python_leaves_the_engine_out(install: Install, engine: str, version: str) -> None:
    said = sentence(install(engine, "venv"))

    assert said == f"{engine} is left out: it needs Python {version}, which was not found"


def test_another_machine_leaves_the_engine_out(install: Install, tmp_path: Path) -> None:
    put(tmp_path, "uname", "echo Linux riscv64")

    assert "for Linux on x86_64, and this is Linux riscv64" in sentence(install("vllm", "venv"))


def test_another_engine_is_refused(install: Install) -> None:
    assert sentence(install("sglang", "venv")) == "sglang is left out: expected vllm or dynamo"


def test_what_pip_says_is_told(install: Install, tmp_path: Path) -> None:
    put_python(tmp_path, "3.12", "echo ERROR: no such thing; exit 1")

    assert "pip could not install it: ERROR: no such thing" in sentence(install("dynamo", "venv"))


def test_an_installed_engine_is_left_alone_until_its_versions_change(install: Install, tmp_path: Path) -> None:
    put_python(tmp_path, "3.12", 'echo "$*" >>$0.calls')
    calls, versions = tmp_path / "checkout/venv/bin/python.calls", tmp_path / "checkout/scripts/engines/dynamo.txt"

    first, again = install("dynamo", "venv"), install("dynamo", "venv")
    once = calls.read_text().splitlines()
    versions.write_text(versions.read_text() + "colorama==0.4.6\n")
    changed = install("dynamo", "venv")

    assert [first.returncode, again.returncode, changed.returncode] == [0, 0, 0]
    assert len(once) == 1
    assert "--no-deps --requirement scripts/engines/dynamo.txt" in once[0]
    assert len(calls.read_text().splitlines()) == 2


def test_versions_are_pinned_exactly() -> None:
    lines = [line for path in (ROOT / "scripts/engines").glob("*.txt") for line in path.read_text().splitlines()]

    assert [line for line in lines if not line.startswith("#") and "==" not in line] == []
    assert os.access(ROOT / "scripts/engines.sh", os.X_OK)
