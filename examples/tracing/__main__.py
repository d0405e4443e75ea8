"""Run a decorated agent with Phoenix as its tracing backend and print what arrived there.

    scripts/programs.sh phoenix .venv-phoenix
    python -m examples.tracing --phoenix .venv-phoenix -- examples.tree_of_thought --seed 1

The agent's model is the scripted one. With `--stay` Phoenix runs on until Enter is pressed, to be looked at in a browser.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from examples import offline
from examples.programs import interruptible
from examples.tracing.phoenix import Phoenix, StoredSpan, running

DEFAULT_AGENT = "examples.tree_of_thought"
_SETTLED_S = 1.0


@interruptible
def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and return the exit status of the agent."""
    options = parse_options(arguments)
    program = (options.phoenix / "bin" / "phoenix").absolute()
    if not program.exists():
        print(f"no {program}: install Phoenix with 'scripts/programs.sh phoenix {options.phoenix}'", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, running(program, Path(folder)) as phoenix:
        status = run_agent(options.agent or [DEFAULT_AGENT], phoenix.url)
        print("\n".join(tree(settled(phoenix))))
        if options.stay:
            input(f"Phoenix is at {phoenix.url}; press Enter to end it ")
    return status


def run_agent(agent: Sequence[str], endpoint: str) -> int:
    """Run an agent on the scripted model, with its spans sent to an endpoint of OTLP over HTTP."""
    with offline.serving("--speed", "max", "--seed", "0") as url:
        variables = offline.environment(url, os.environ) | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        command = [sys.executable, "-m", "examples.tracing.exporting", *agent]
        return subprocess.run(command, check=False, env=variables, stdout=sys.stderr).returncode


def settled(phoenix: Phoenix) -> list[StoredSpan]:
    """Return the spans that arrived, once no more do."""
    before: list[StoredSpan] = []
    while len(found := phoenix.spans()) != len(before):
        before = found
        time.sleep(_SETTLED_S)
    return found


def tree(spans: Sequence[StoredSpan]) -> Iterator[str]:
    """Yield a line a span, below its parent: its name, what it is shown as, and how long it took."""
    below: defaultdict[str | None, list[StoredSpan]] = defaultdict(list)
    known = {span.span_id for span in spans}
    for span in spans:
        below[span.parent_id if span.parent_id in known else None].append(span)

    def lines(parent: str | None, depth: int) -> Iterator[str]:
        for span in below[parent]:
            took = datetime.fromisoformat(span.end) - datetime.fromisoformat(span.start)
            failed = ", failed" if span.status == "ERROR" else ""
            yield f"{'  ' * depth}{span.name} ({span.shown_as}, {took.total_seconds():.3f} s{failed})"
            yield from lines(span.span_id, depth + 1)

    yield from lines(None, 0)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.tracing", description="Spans of an agent in Phoenix.")
    parser.add_argument("--phoenix", type=Path, default=".venv-phoenix", help="its environment (default: %(default)s)")
    parser.add_argument("--stay", action="store_true", help="keep Phoenix until Enter is pressed")
    parser.add_argument("agent", nargs="*", metavar="AGENT", help=f"module and arguments (default: {DEFAULT_AGENT})")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
