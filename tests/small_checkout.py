"""A small checkout in which tests run what is in scripts/, on a PATH that holds no program but those a test puts there."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = (
    *("basename", "cat", "chmod", "cksum", "cp", "cut", "dirname", "grep"),
    *("head", "ls", "mkdir", "sed", "sh", "sort", "tail", "tr"),
)


@dataclass(frozen=True, slots=True)
class SmallCheckout:
    """Where it is, beside the folder of the programs."""

    folder: Path
    tools: Path

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script with these variables and none of who runs the tests."""
        home = self.tools.parent
        return subprocess.run(
            [str(self.folder / "scripts" / script), *arguments],
            cwd=self.folder,
            env={"PATH": str(self.tools), "HOME": str(home), "PYENV_ROOT": str(home / "none"), **variables},
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def put(self, program: str, body: str) -> str:
        """Put a stand-in for a program on the PATH and return its path."""
        path = self.tools / program
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def put_python(self, version: str, pip: str) -> None:
        """Put a stand-in for a Python whose environments hold a Python that does `pip` for any command."""
        make_venv = f"mkdir -p $3/bin && printf '%s' '#!/bin/sh\n{pip}\n' >$3/bin/python && chmod +x $3/bin/python"
        told = f'--version) echo "Python {version}.1"'
        self.put(f"python{version}", f'case "$*" in {told} ;; *venv*) {make_venv} ;; esac')


def small_checkout(folder: Path) -> SmallCheckout:
    """Make one below a folder, with all scripts."""
    made = SmallCheckout(folder / "checkout", folder / "tools")
    shutil.copytree(ROOT / "scripts", made.folder / "scripts")
    shutil.copy(ROOT / "pyproject.toml", made.folder)
    made.tools.mkdir()
    for tool in TOOLS:
        (made.tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"this machine has no {tool}"))
    return made


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a failed run says."""
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]
