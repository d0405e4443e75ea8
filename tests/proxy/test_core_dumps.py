from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DIES = """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
{}
os.abort()
"""
KEEPS = "from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk; keep_prompts_off_the_disk()"


def dumped(folder: Path, before: str) -> bool:
    """Let a process abort; whether that left a file in the folder it ran in."""
    folder.mkdir()
    subprocess.run([sys.executable, "-c", DIES.format(before)], cwd=folder, check=False)
    return any(folder.iterdir())


def test_a_process_that_keeps_prompts_off_the_disk_leaves_no_core_dump(tmp_path: Path) -> None:
    assert not dumped(tmp_path / "ours", KEEPS)
    if not dumped(tmp_path / "any", ""):
        pytest.skip("this machine writes no core dumps to where a process runs")


@pytest.mark.parametrize(
    ("hard", "soft"),
    [("hard", "1 if hard else 0"), ("4096", "1"), ("1", "1"), ("0", "0")],
    ids=["own", "some", "1", "0"],
)
def test_the_limit_is_the_one_that_no_collector_of_dumps_goes_beyond(hard: str, soft: str) -> None:
    code = f"""
import resource
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (0, {hard}))
{KEEPS}
assert resource.getrlimit(resource.RLIMIT_CORE) == ({soft}, {hard}), resource.getrlimit(resource.RLIMIT_CORE)
"""

    subprocess.run([sys.executable, "-c", code], check=True)
