"""What is loaded when rotoscope is imported into somebody's agent, or asked for help."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command

from rotoscope.cli import app

HEAVY = {"aiohttp", "mitmproxy", "numpy", "openai", "opentelemetry", "prometheus_client", "rich", "tiktoken"}
COMMANDS = sorted(getattr(get_command(app), "commands", {}))


def heavy_modules_after(code: str) -> set[str]:
    """Run code in a fresh interpreter and return which of the heavy packages it has loaded."""
    report = "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", report + code], capture_output=True, text=True, check=True)
    loaded = done.stderr.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert "rotoscope" in loaded
    return {name.split(".")[0] for name in loaded} & HEAVY


def run_command(*arguments: str) -> str:
    return f"import sys; sys.argv = ['rotoscope', *{arguments!r}]\nfrom rotoscope.cli import main; main()\n"


def test_importing_rotoscope_loads_nothing_heavy() -> None:
    assert heavy_modules_after("import rotoscope\n") == set()


def test_help_loads_nothing_heavy() -> None:
    assert heavy_modules_after(run_command("--help")) == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    assert heavy_modules_after(run_command(command, "--help")) == set()


def test_a_heavy_module_would_be_seen() -> None:
    assert heavy_modules_after("import rotoscope, numpy\n") == {"numpy"}
