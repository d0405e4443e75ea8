"""`scripts/environment.sh`: what is missing is told in one sentence, and what is there is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import venv as venv_module
from collections.abc import Callable
from pathlib import Path

import pytest
from small_checkout import SmallCheckout, last_line, small_checkout

RUNS = 'case "$*" in --version) echo "Python 3.12.1" ;; *venv) {venv} ;; *) exit 0 ;; esac'

Prepare = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> SmallCheckout:
    return small_checkout(tmp_path)


@pytest.fixture
def prepare(checkout: SmallCheckout) -> Prepare:
    """Run the script, for `.venv dev` where nothing else is named."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return checkout.run("environment.sh", *(arguments or (".venv", "dev")), **variables)

    return run


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a failed run says."""
    assert done.stderr.count("\n") == 1
    return last_line(done)


def test_no_python_is_told(prepare: Prepare) -> None:
    assert sentence(prepare()).startswith("no Python was found and Rotoscope needs 3.11 or newer: install one")


def test_too_old_python_is_told_with_its_version_and_place(prepare: Prepare, checkout: SmallCheckout) -> None:
    path = checkout.put("python3", 'echo "Python 3.9.18"')

    assert sentence(prepare()).startswith(f"the Python found here is 3.9 ({path}) and Rotoscope needs 3.11 or newer")


def test_named_python_that_is_too_old_is_told(prepare: Prepare, checkout: SmallCheckout) -> None:
    checkout.put("old", 'echo "Python 3.10.2"')

    assert sentence(prepare(PYTHON="old")).startswith("PYTHON='old' is Python 3.10 and Rotoscope needs 3.11 or newer")


def test_named_python_that_does_not_run_is_told(prepare: Prepare, checkout: SmallCheckout) -> None:
    checkout.put("python3.12", 'echo "pyenv: python3.12: command not found" >&2; exit 127')

    assert sentence(prepare(PYTHON="python3.12")).startswith("PYTHON='python3.12' does not run")


def test_stand_in_for_a_missing_python_is_passed_over(prepare: Prepare, checkout: SmallCheckout) -> None:
    checkout.put("python3", 'echo "pyenv: python3: command not found" >&2; exit 127')
    checkout.put("python3.11", RUNS.format(venv="exit 1"))

    assert "python3.11 has no venv module" in sentence(prepare())


def test_missing_venv_module_is_told_with_the_package_to_install(prepare: Prepare, checkout: SmallCheckout) -> None:
    checkout.put("python3", RUNS.format(venv="exit 1"))

    assert "has no venv module: install it (on Debian and Ubuntu the package python3.12-venv)" in sentence(prepare())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="this system has no /proc, which nobody may write to")
def test_folder_that_cannot_be_written_is_told(prepare: Prepare, checkout: SmallCheckout) -> None:
    checkout.put("python3", RUNS.format(venv="exit 0"))

    assert "'/proc/rotoscope' cannot be written" in sentence(prepare("/proc/rotoscope", "dev"))


def test_folder_with_something_else_in_it_is_left_alone(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").touch()

    assert "is there and is no virtual environment" in sentence(prepare(str(tmp_path / "mine"), "dev"))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter"]


def test_unreachable_index_is_told(prepare: Prepare, checkout: SmallCheckout) -> None:
    put_venv_with_pip(checkout.folder / ".venv")
    index = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    done = prepare(PYTHON=sys.executable, **index)

    assert done.returncode == 1
    announcement, line = done.stderr.splitlines()
    assert announcement.startswith("installing Rotoscope and what it needs (dev) into .venv")
    assert line.startswith("no package index could be reached: check the network or PIP_INDEX_URL and run again")


def put_venv_with_pip(venv: Path) -> None:
    """Make a virtual environment with the pip that runs here; to install one takes seconds."""
    pip = pytest.importorskip("pip", reason="this environment has no pip")
    venv_module.create(venv, symlinks=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)


def fake_venv(folder: Path) -> Path:
    """Make the folder of a virtual environment whose pip notes what it was asked to install."""
    venv = folder / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    python = venv / "bin/python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in --version) echo Python 3.11.7 ;; *install*) echo "$*" >>"$0.asked"; [ ! -e "$0.fails" ] ;; esac\n'
    )
    python.chmod(0o755)
    return venv


def asked(venv: Path) -> list[str]:
    """Return what pip was asked to install so far, by extras."""
    return [line.split(".[")[1].rstrip("]") for line in (venv / "bin/python.asked").read_text().splitlines()]


def test_second_run_installs_nothing(prepare: Prepare, checkout: SmallCheckout) -> None:
    venv = fake_venv(checkout.folder)

    assert prepare(".venv", "dev", "examples").returncode == 0
    assert prepare(".venv", "dev", "examples").returncode == 0
    assert prepare(".venv", "examples").stderr == ""
    assert asked(venv) == ["dev,examples"]


def test_a_failed_installation_is_tried_again(prepare: Prepare, checkout: SmallCheckout) -> None:
    venv = fake_venv(checkout.folder)
    (venv / "bin/python.fails").touch()
    failed = prepare()
    (venv / "bin/python.fails").unlink()
    succeeded = prepare()

    assert "pip could not install Rotoscope" in failed.stderr
    assert (failed.returncode, succeeded.returncode) == (1, 0)
    assert asked(venv) == ["dev", "dev"]


def test_new_extra_is_added_to_those_that_are_there(prepare: Prepare, checkout: SmallCheckout) -> None:
    venv = fake_venv(checkout.folder)
    prepare(".venv", "examples")
    prepare(".venv", "dev")

    assert asked(venv) == ["examples", "dev,examples"]


def test_changed_project_file_is_installed_again(prepare: Prepare, checkout: SmallCheckout) -> None:
    venv = fake_venv(checkout.folder)
    prepare()
    with (checkout.folder / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    prepare()

    assert asked(venv) == ["dev", "dev"]


def test_moved_checkout_is_installed_again(prepare: Prepare, checkout: SmallCheckout) -> None:
    venv = fake_venv(checkout.folder)
    prepare()
    stamp = venv / "rotoscope.stamp"
    stamp.write_text(stamp.read_text().replace("/checkout\n", "/elsewhere\n"))
    prepare()

    assert asked(venv) == ["dev", "dev"]


def test_environment_of_another_python_is_not_used_silently(prepare: Prepare, checkout: SmallCheckout) -> None:
    fake_venv(checkout.folder)
    checkout.put("python3.12", RUNS.format(venv="exit 0"))

    assert sentence(prepare(PYTHON="python3.12")).startswith(
        "'.venv' holds Python 3.11 and PYTHON='python3.12' is another"
    )


def test_environment_whose_python_is_gone_is_told(prepare: Prepare, checkout: SmallCheckout) -> None:
    (fake_venv(checkout.folder) / "bin/python").unlink()

    assert sentence(prepare()) == "the Python that '.venv' was made with is gone: remove the folder and run again"
