"""Programs that agents are, each in a process of its own that ends as any does: by its end, an error, or a signal.

Most of what such a process costs is loading, so it is forked from one that has loaded what they all import.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

LOADED = """
import json, os, sys
import httpx2, rotoscope, rotoscope.sdk.alone, rotoscope.sdk.sending
for line in sys.stdin:
    job = json.loads(line)
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for number, name in enumerate((os.devnull, job["out"], job["err"])):
    opened = os.open(name, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, number)
    os.close(opened)
os.environ.clear()
os.environ.update(job["environment"])
sys.argv = ["-c", *job["arguments"]]
exec(job["code"])
"""
QUIET = ("-W", "ignore::DeprecationWarning")
"""Of a fork beside threads, from Python 3.12 on."""


def run_forked(code: str, *arguments: str, environment: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """Run a program with some more environment; return how it ended and what it printed."""
    process = _loaded()
    assert process.stdin is not None
    assert process.stdout is not None
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        job = {"code": code, "arguments": arguments, "environment": {**os.environ, **environment}}
        process.stdin.write(json.dumps({**job, "out": str(out), "err": str(err)}) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        return subprocess.CompletedProcess(code, status, out.read_text(), err.read_text())


@cache
def _loaded() -> subprocess.Popen[str]:
    command = [sys.executable, *QUIET, "-c", LOADED]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)
    return process
