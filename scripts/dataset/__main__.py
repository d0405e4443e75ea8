"""Record the dataset: runs of the five agent patterns in examples/, offline, with a scripted model (`make dataset`).

    python -m scripts.dataset [--folder FOLDER] [--jobs N] [--speed X]

1. Each pattern is recorded with 30 seeds by `rotoscope record --each`, all as one campaign; runs that are there stay.
2. All traces are audited.
3. Two of each pattern are published into examples/traces, the figures of all into examples/dataset.jsonl, and the tables of
   docs/dataset.md and of the README there are written anew.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.programs import interruptible
from rotoscope.recorder.campaigns import Campaigns
from rotoscope.traces import load
from rotoscope.traces.audit import audit
from rotoscope.traces.errors import RotoscopeError, RunFailed
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.publish import PublishOptions, publish
from scripts.dataset import figures, tables
from scripts.dataset.figures import Figures, figures_of
from scripts.dataset.patterns import PATTERNS, RUNS, Pattern
from scripts.dataset.recording import CAMPAIGN, CAMPAIGNS, Settings, record, status_of, trace_of
from scripts.example_traces.table import FOLDER

ROOT = Path(__file__).parents[2]
PUBLISHED = (1, 2)
"""Runs of each pattern that are in examples/traces."""
SEED = 2
"""Of the ids: the same recordings give the same files; not that of the coding agents, whose corpus is another one."""


@interruptible
def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing, and write everything that is made of the traces."""
    options = parse_options(arguments)
    settings = Settings(options.folder.absolute(), options.jobs, options.speed)
    settings.folder.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(record_all(settings))
        rows = audited(settings)
        put_in_place(settings)
    except RotoscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("what is recorded stays; the same command goes on", file=sys.stderr)
        raise
    figures.save(rows)
    tables.PAGE.write_text(tables.with_tables(tables.PAGE.read_text(), rows))
    readme = FOLDER / "README.md"
    readme.write_text(tables.with_published(readme.read_text(), FOLDER))
    print(tables.table_1(rows))
    return 0


async def record_all(settings: Settings) -> None:
    """Record all patterns, one after the other."""
    for pattern in PATTERNS:
        start_s = time.monotonic()
        failed = await record(pattern, settings)
        print(f"{pattern.name}: {RUNS} traces after {time.monotonic() - start_s:.0f} s", flush=True)
        if failed:
            print(f"{pattern.name}: {failed} of the new runs did not reach their goal, which is part of the dataset")
    if (settings.folder / CAMPAIGNS / CAMPAIGN).exists():  # nothing was missing otherwise
        Campaigns(settings.folder / CAMPAIGNS).end(CAMPAIGN)


def audited(settings: Settings) -> list[Figures]:
    """Return the figures of all traces, which the audit found clean; raise RunFailed where it did not."""
    runs = [(pattern, run) for pattern in PATTERNS for run in range(1, RUNS + 1)]
    files = [trace_of(settings.traces_of(pattern), run) for pattern, run in runs]
    done = audit(files)
    if not done.is_clean:
        raise RunFailed(f"the audit found {done.findings.total} faults, first: {done.findings.kept[0]}")
    print(f"{len(files)} traces, audit clean", flush=True)
    return [
        figures_of(load(file), pattern=pattern.name, run=run, reached_goal=reached_goal(settings, pattern, run))
        for (pattern, run), file in zip(runs, files, strict=True)
    ]


def reached_goal(settings: Settings, pattern: Pattern, run: int) -> bool:
    """Return whether an agent ended with status 0."""
    return int(status_of(settings.statuses_of(pattern), run).read_text()) == 0


def put_in_place(settings: Settings) -> None:
    """Publish some traces of each pattern into examples/traces."""
    chosen = [(pattern, run) for pattern in PATTERNS for run in PUBLISHED]
    with TemporaryDirectory(prefix="dataset-") as name:
        corpus = Path(name) / "corpus"
        recorded = open_traces([str(trace_of(settings.traces_of(pattern), run)) for pattern, run in chosen])
        done = publish(recorded, corpus, PublishOptions(seed=SEED))
        for (pattern, run), file in zip(chosen, done.files, strict=True):
            place = trace_of(FOLDER / pattern.name, run)
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(corpus / file, place)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.dataset", description="Record the dataset.")
    parser.add_argument("--folder", type=Path, default=ROOT / "results/dataset", help="where the traces go")
    parser.add_argument("--jobs", type=int, default=4, help="agents that run at once (default: %(default)s)")
    parser.add_argument(
        "--speed", type=float, default=20.0, help="times faster than modelled at which the server answers"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
