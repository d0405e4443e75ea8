"""`rotoscope sweep`: replay at each point of a grid over concurrency and settings of the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.flags import with_flags
from rotoscope.loading import loading
from rotoscope.replay_flags import ReplayFlags, TracePaths
from rotoscope.replaying import say
from rotoscope.server_flags import ServerFlags, performing

if TYPE_CHECKING:
    from rotoscope.replayer.servers import Settings
    from rotoscope.replayer.sweep.run import Swept


@with_flags
def sweep(
    paths: TracePaths,
    concurrency: Annotated[str, typer.Option(help="Sessions in flight, of each point: 1,2,4,8.", metavar="C1,C2,...")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the sweep; one that was broken off goes on there.")
    ],
    sessions: Annotated[int | None, typer.Option(help="Sessions of each point.", min=1)] = None,
    sessions_per_user: Annotated[
        int | None, typer.Option(help="Sessions of a point for each that is in flight, instead of --sessions.", min=1)
    ] = None,
    *,
    server: ServerFlags,
    flags: ReplayFlags,
) -> None:
    """Replay at each point of a grid and put jobs/h/user against jobs/h/GPU, with the hit rate beside its optimum.

    Some points are not valid: exit code 3; some left no result: 1; interrupted: 130, and the same command goes on.

    Example: rotoscope sweep traces --url http://127.0.0.1:8000 --concurrency 1,2,4,8 --sessions-per-user 8 -o sweep
    """
    with loading():
        from rotoscope.replayer.interruption import signals_raise
        from rotoscope.replayer.sweep.plan import plan_sweep
        from rotoscope.replayer.sweep.run import sweep
        from rotoscope.replayer.sweep.settings import parse_concurrencies
        from rotoscope.traces.errors import UnusableInput
        from rotoscope.traces.formats.recognise import corpus_called

    if sessions is not None and sessions_per_user is not None:
        raise UnusableInput("expected --sessions or --sessions-per-user, not both")
    place, settings = server.place()
    options = flags.options(place.any_url)
    labelled, shares = flags.opened(paths, say)
    traces = [opened.trace for opened in labelled]
    options = replace(options, mix=shares, corpus=corpus_called(labelled), sessions=sessions or sessions_per_user)
    plan = plan_sweep(
        traces,
        options,
        concurrency=parse_concurrencies(concurrency),
        settings=settings,
        sessions=sessions,
        sessions_per_user=sessions_per_user,
        place=place,
    )
    with signals_raise():
        swept = sweep(plan, options, folder=output, perform=performing(place, traces), say=say)
    _print(swept, settings)
    raise typer.Exit(swept.exit_code)


def _print(swept: Swept, settings: Settings) -> None:
    from rotoscope.replayer.sweep.table import headings, sweep_rows
    from rotoscope.tables import print_table

    varied = [name for name, values in settings.items() if len(values) > 1]
    columns = headings(varied)
    print_table(columns, sweep_rows(swept.measured, varied), right=range(len(varied), len(columns) - 2))
    if any(one.summary.setup.simulated for one in swept.measured):
        typer.echo("\nsimulated: times are modelled, no model was computed")
    for point in swept.failed:
        say(f"point {point.number} left no result: {point}")
    for one in swept.measured:
        if one.valid != "yes":
            say(f"point {one.point.number} is not valid, {' '.join(one.failed_gates) or one.valid}: {one.point}")
    if swept.interrupted:
        say("interrupted: the same command goes on where it was")
