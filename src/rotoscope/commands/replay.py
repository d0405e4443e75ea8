"""`rotoscope replay`: perform traces against a server and measure it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.flags import with_flags
from rotoscope.loading import loading
from rotoscope.replay_flags import ReplayFlags, TracePaths
from rotoscope.replaying import run_modelled_replay, run_replay, say
from rotoscope.simulate_flags import SetOne, Simulate, Url, simulator_given

if TYPE_CHECKING:
    from rotoscope.replayer.summary import Summary


@with_flags
def replay(
    paths: TracePaths,
    url: Url = None,
    simulate: Simulate = False,
    settings: SetOne = None,
    sessions: Annotated[
        int | None,
        typer.Option(help="Sessions, to which the traces are dealt in turn; one a trace if not given.", min=1),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Sessions in flight; 1 if neither this nor --rate is given.", min=1)
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Let sessions in at this rate whatever the server does, with its unit: 720/h, 12/min, 0.2/s.",
            metavar="R",
        ),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            help="constant, poisson (if not given), gamma:CV or recorded: how starts are spread in time.",
            metavar="KIND",
        ),
    ] = None,
    *,
    flags: ReplayFlags,
    salt: Annotated[
        str | None,
        typer.Option(help="Second seed; fresh for each run if not given, so that no run hits another's cache."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the results; results/replay-<n> if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
) -> None:
    """Replay traces with random token ids and report latencies, jobs an hour and the hit rate beside its optimum.

    Not valid: exit code 3; all sessions failed: 1; interrupted: 130, with what was measured.

    Example: rotoscope replay traces --url http://127.0.0.1:8000 --sessions 64 --concurrency 16
    """
    with loading():
        from rotoscope.replayer.interruption import signals_raise
        from rotoscope.replayer.load.arrivals import Arrivals
        from rotoscope.replayer.load.rate import rate_per_h
        from rotoscope.replayer.load.recorded import recorded_starts_s
        from rotoscope.traces.formats.recognise import corpus_called

    simulator = simulator_given(url=url, simulate=simulate, settings=settings or ())
    options = replace(
        flags.options(url),
        sessions=sessions,
        concurrency=concurrency,
        rate_per_h=None if rate is None else rate_per_h(rate),
        arrivals=None if arrivals in (None, "recorded") else Arrivals.parse(arrivals),
        salt=salt,
        folder=output,
    )
    traces, shares = flags.opened(paths, say)
    options = replace(options, mix=shares, corpus=corpus_called(traces))
    if arrivals == "recorded":
        options = replace(options, recorded_starts_s=recorded_starts_s(traces))
    bare = [opened.trace for opened in traces]
    with signals_raise():
        summary = run_replay(bare, options) if simulator is None else run_modelled_replay(bare, options, simulator)
    _print(summary, as_json=as_json)
    raise typer.Exit(summary.exit_code)


def _print(summary: Summary, *, as_json: bool) -> None:
    import orjson

    from rotoscope.replayer.gates.verdict import invalid_lines
    from rotoscope.replayer.table import DISTRIBUTION_HEADINGS, distribution_rows, outcome_rows
    from rotoscope.tables import print_table

    for line in invalid_lines(summary.validity):
        typer.echo(line, err=as_json)
    if as_json:
        typer.echo(orjson.dumps(summary.as_dict(), option=orjson.OPT_INDENT_2))
        return
    print_table(("replay", "", "what it is"), outcome_rows(summary))
    typer.echo()
    print_table(DISTRIBUTION_HEADINGS, distribution_rows(summary), right=range(1, 6))
