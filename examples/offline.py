"""Run a command whose model is the scripted one: `python -m examples.offline [--seed N] -- COMMAND ...`.

The scripted model is served on a free port by the simulator, in a process of its own, for as long as the command runs.
The command finds it by OPENAI_BASE_URL; the exit status is the command's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from examples.programs import interruptible, run_command
from rotoscope.traces.errors import RotoscopeError, UnusableInput

ROOT = Path(__file__).parents[1]
LOOPBACK = "127.0.0.1"


@interruptible
def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the scripted model, run the command in front of it and return its exit status."""
    options = parse_options(arguments)
    try:
        with serving("--speed", options.speed, "--seed", str(options.seed)) as url:
            print("the model is a script, and its times are simulated", file=sys.stderr, flush=True)
            return run_command(options.command, environment(url, os.environ))
    except RotoscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Serve the scripted model on a free port and yield its base URL; what the simulator complains of is shown at the end.

    Raises UnusableInput, with the simulator's words, when it does not start.
    """
    command = (sys.executable, "-m", "rotoscope", "serve", "--port", "0", "--script", "examples.scripted_model:answer")
    with (
        TemporaryFile("a+", encoding="utf-8", errors="replace") as log,
        subprocess.Popen(
            (*command, *options),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command, which may still have something to ask
        ) as process,
    ):
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            introduced = log.seek(0, os.SEEK_END)
            if url:
                yield f"{url}/v1"
        finally:
            process.terminate()
            process.wait()
        log.seek(introduced if url else 0)
        said = log.read().strip()
        if not url:
            raise UnusableInput(said.removeprefix("error: ") or "the simulator did not start")
        print(said, end="\n" if said else "", file=sys.stderr)


def environment(url: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command: this model, no key, no proxy before it, and this Python as `python`."""
    direct = ",".join(filter(None, (given.get("no_proxy") or given.get("NO_PROXY"), LOOPBACK)))
    path = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), given.get("PATH"))))
    ours = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "no_proxy": direct, "NO_PROXY": direct, "PATH": path}
    return {**given, **ours}


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.offline", description="Run a command without a model.")
    parser.add_argument("--seed", type=int, default=0, help="seed of what the model says (default: %(default)s)")
    parser.add_argument(
        "--speed", default="200", help="times faster than modelled at which it answers, or max (default: %(default)s)"
    )
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the command and its arguments, after --")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
