"""What is loaded when rotoscope is imported into somebody's agent, or asked for help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.main import get_command

from rotoscope.cli import app

HEAVY = {"aiohttp", "mitmproxy", "numpy", "openai", "opentelemetry", "prometheus_client", "rich", "tiktoken"}
COMMANDS = sorted(getattr(get_command(app), "commands", {}))

HELP_OF_ALL = """
import json, sys
from rotoscope.cli import main
loaded = {}
for command in sys.argv[1:]:
    before = set(sys.modules)
    sys.argv = ["rotoscope", command, "--help"]
    try:
        main()
    except SystemExit as left:
        assert not left.code
    loaded[command] = sorted(set(sys.modules) - before)
print(json.dumps(loaded), file=sys.stderr)
"""


def heavy_of(modules: list[str]) -> set[str]:
    """Return which of the heavy packages some modules are of."""
    return {name.split(".")[0] for name in modules} & HEAVY


def heavy_modules_after(code: str) -> set[str]:
    """Run code in a fresh interpreter and return which of the heavy packages it has loaded."""
    report = "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", report + code], capture_output=True, text=True, check=True)
    loaded = done.stderr.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert "rotoscope" in loaded
    return heavy_of(loaded)


@pytest.fixture(scope="module")
def loaded_for_help() -> dict[str, list[str]]:
    """The modules that the help of each command loads, of those that no command before it has loaded."""
    done = subprocess.run([sys.executable, "-c", HELP_OF_ALL, *COMMANDS], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage:") == len(COMMANDS)
    loaded: dict[str, list[str]] = json.loads(done.stderr.splitlines()[-1])
    return loaded


def test_importing_rotoscope_loads_nothing_heavy() -> None:
    assert heavy_modules_after("import rotoscope\n") == set()


def test_what_agents_import_loads_none_of_what_recording_needs() -> None:
    names = "current_run, instrument, parallel, trace_agent, trace_tool, wait"
    code = f"import sys; before = {{*sys.modules}}; from rotoscope import {names}; print(*{{*sys.modules}} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}

    assert "rotoscope.sdk.decorators" in loaded
    assert (
        loaded & {"asyncio", "http", "importlib.resources", "orjson", "rotoscope.traces", "secrets", "socket"} == set()
    )
    assert heavy_of([*loaded]) == set()


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['rotoscope', '--help']\nfrom rotoscope.cli import main; main()\n"

    assert heavy_modules_after(code) == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_nothing_heavy(command: str, loaded_for_help: dict[str, list[str]]) -> None:
    assert heavy_of(loaded_for_help[command]) == set()


def test_a_heavy_module_would_be_seen() -> None:
    assert heavy_modules_after("import rotoscope, numpy\n") == {"numpy"}
