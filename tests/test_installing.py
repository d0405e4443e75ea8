"""What installs others' software: what is missing is told in one sentence, and what is there is left alone."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_checkout import ROOT, SmallCheckout, last_line, small_checkout

SCRIPTS = ROOT / "scripts"


@dataclass(frozen=True, slots=True)
class Kind:
    """One script, and one of what it installs."""

    script: str
    name: str
    told_as: str
    needs: str
    installer: str
    """What it is installed with: npm, or a version of Python."""
    asked: str
    """What the installer is asked for."""
    versions: str
    listed: frozenset[str]


KINDS = {
    "client": Kind(
        "clients.sh",
        "openai",
        "the client openai",
        "Python 3.11",
        "3.11",
        "--no-deps --requirement scripts/clients/openai.txt",
        "scripts/clients/openai.txt",
        frozenset(path.stem for path in SCRIPTS.glob("clients/*.txt")),
    ),
    "coding agent": Kind(
        "coding_agents.sh",
        "codex",
        "the coding agent codex",
        "Node 20 with npm",
        "npm",
        "--ignore-scripts",
        "scripts/coding_agents/codex/package.json",
        frozenset(path.name for path in SCRIPTS.glob("coding_agents/*")),
    ),
    "engine": Kind(
        "programs.sh",
        "dynamo",
        "dynamo",
        "Python 3.12",
        "3.12",
        "--no-deps --requirement scripts/programs/dynamo.txt",
        "scripts/programs/dynamo.txt",
        frozenset({"aiconfigurator", "aiperf", "dynamo", "phoenix", "vllm"}),
    ),
    "program": Kind(
        "programs.sh",
        "phoenix",
        "phoenix",
        "Python 3.11 or newer",
        "3.13",
        "--no-deps --requirement scripts/programs/phoenix.txt",
        "scripts/programs/phoenix.txt",
        frozenset({"aiconfigurator", "aiperf", "dynamo", "phoenix", "vllm"}),
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@pytest.fixture
def checkout(tmp_path: Path) -> SmallCheckout:
    made = small_checkout(tmp_path)
    made.put("uname", "echo Linux x86_64")
    return made


def put_installer(checkout: SmallCheckout, kind: Kind, body: str) -> None:
    if kind.installer == "npm":
        checkout.put("npm", body)
    else:
        checkout.put_python(kind.installer, body)


@each_kind
def test_what_is_missing_to_install_it_leaves_it_out(checkout: SmallCheckout, kind: Kind) -> None:
    said = last_line(checkout.run(kind.script, kind.name, "folder"))

    assert said == f"{kind.told_as} is left out: it needs {kind.needs}, which was not found"


@each_kind
def test_one_that_is_not_listed_is_refused_with_those_that_are(checkout: SmallCheckout, kind: Kind) -> None:
    said = last_line(checkout.run(kind.script, "telnet", "folder"))

    assert said.startswith(f"{kind.told_as.replace(kind.name, 'telnet')} is left out: expected ")
    listed = said.partition("expected ")[2].removeprefix("one of ").replace(",", "").replace(" or ", " ")
    assert set(listed.split()) == kind.listed


@each_kind
def test_what_the_installer_says_is_told(checkout: SmallCheckout, kind: Kind) -> None:
    put_installer(checkout, kind, "echo ERROR: no such thing; exit 1")

    said = last_line(checkout.run(kind.script, kind.name, "folder"))

    assert "it could not be installed: ERROR: no such thing (all that was said is in folder" in said
    log = said.partition("all that was said is in ")[2].rstrip(")")
    assert "ERROR: no such thing\n" in (checkout.folder / log).read_text()


@each_kind
def test_what_is_installed_is_left_alone_until_its_versions_change(
    checkout: SmallCheckout, kind: Kind, tmp_path: Path
) -> None:
    put_installer(checkout, kind, f'echo "$*" >>{tmp_path}/calls')
    versions = checkout.folder / kind.versions

    def asked() -> int:
        return sum(kind.asked in line for line in (tmp_path / "calls").read_text().splitlines())

    first, again = (checkout.run(kind.script, kind.name, "folder") for _ in range(2))
    once = asked()
    versions.write_text(versions.read_text() + "\n")
    changed = checkout.run(kind.script, kind.name, "folder")

    assert [first.returncode, again.returncode, changed.returncode] == [0, 0, 0]
    assert again.stderr == ""
    assert (once, asked()) == (1, 2)


def test_an_engine_is_left_out_on_another_machine(checkout: SmallCheckout) -> None:
    checkout.put("uname", "echo Linux riscv64")

    said = last_line(checkout.run("programs.sh", "vllm", "folder"))

    assert said == "vllm is left out: its package is for Linux on x86_64, and this is Linux riscv64"


def test_another_program_is_installed_with_the_python_that_is_named(checkout: SmallCheckout) -> None:
    checkout.put_python("3.11", "exit 1")
    checkout.put_python("3.12", "exit 0")

    done = checkout.run("programs.sh", "aiperf", "folder", PYTHON="python3.12")

    assert (done.returncode, done.stderr) == (0, "installing aiperf into folder with Python 3.12.1\n")


def test_versions_of_clients_and_programs_are_exact() -> None:
    lists = [*SCRIPTS.glob("clients/**/*.txt"), *SCRIPTS.glob("programs/*.txt")]
    lines = [line for path in lists for line in path.read_text().splitlines()]

    assert [line for line in lines if not line.startswith("#") and "==" not in line] == []


def test_every_list_of_a_client_has_an_agent() -> None:
    agents = {path.stem.removesuffix("_agent").replace("_", "-") for path in ROOT.glob("tests/clients/*_agent.py")}

    assert agents == KINDS["client"].listed


def test_every_coding_agent_has_a_module_an_exact_version_and_a_lock() -> None:
    names = KINDS["coding agent"].listed
    modules = {path.stem for path in ROOT.glob("tests/coding_agents/*.py") if "\nAGENT = " in path.read_text()}

    assert {name.replace("-", "_") for name in names} == modules
    for name in names:
        pins = SCRIPTS / "coding_agents" / name
        ((package, version),) = json.loads((pins / "package.json").read_text())["dependencies"].items()
        locked = json.loads((pins / "package-lock.json").read_text())["packages"]
        assert locked[f"node_modules/{package}"]["version"] == version
        assert all("integrity" in one for path, one in locked.items() if path and not one.get("link"))


def test_every_script_can_be_run() -> None:
    assert [path.name for path in SCRIPTS.glob("*.sh") if not os.access(path, os.X_OK)] == []
