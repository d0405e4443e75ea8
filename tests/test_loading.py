"""Tests of loading what a command needs."""

from __future__ import annotations

import subprocess
import sys

REPORT = "; print(gc.isenabled(), gc.get_freeze_count() > 0, os.environ.get('OPENBLAS_NUM_THREADS'))"


def after(code: str, **environment: str) -> str:
    """Run code in a process of its own and return what it says of its collector and its environment."""
    start = "import gc, os\nfrom rotoscope.loading import loading\n"
    command = [sys.executable, "-c", f"{start}{code}{REPORT}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def test_within_nothing_is_collected() -> None:
    assert after("with loading(): enabled = gc.isenabled()\nprint(enabled)").startswith("False")


def test_afterwards_garbage_is_collected_but_what_was_loaded_is_left_alone() -> None:
    assert after("with loading(): import decimal\n0") == "True True 1"


def test_who_turned_the_collector_off_finds_it_off() -> None:
    assert after("gc.disable()\nwith loading(): pass\n0").startswith("False")


def test_threads_asked_for_are_kept() -> None:
    assert after("with loading(): pass\n0", OPENBLAS_NUM_THREADS="3").endswith("3")


def test_a_failed_import_turns_the_collector_on_again() -> None:
    assert after("try:\n  with loading(): import nothing_of_this_name\nexcept ImportError: pass\n0").startswith("True")
