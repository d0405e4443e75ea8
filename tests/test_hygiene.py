"""What the repository must not hold: places on somebody's machine, large files, modules named for nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MACHINE_PATH = re.compile(rb"(?<![\w.])/(root|work|Users|home/(?!somebody/|jo/)[a-z]+)/[\w.]")
"""Somebody and jo are people whom tests have made up."""
LARGEST_BYTES = 300_000
EMPTY_NAMES = {"base", "common", "core", "helpers", "manager", "utils"}


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("this tree is no git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_place_on_a_machine_is_named(tracked: list[Path]) -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]

    assert named == []


def test_a_place_on_a_machine_would_be_seen() -> None:
    assert MACHINE_PATH.search(b"see " + b"/".join([b"", b"home", b"alice", b"notes"]))
    assert not MACHINE_PATH.search(b"GET https://host/api/root/x and ../root/x")


def test_no_file_is_large(tracked: list[Path]) -> None:
    assert [str(path) for path in tracked if path.stat().st_size > LARGEST_BYTES] == []


def test_no_module_is_named_for_nothing(tracked: list[Path]) -> None:
    assert [str(path) for path in tracked if path.suffix == ".py" and path.stem in EMPTY_NAMES] == []
