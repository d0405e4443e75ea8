"""`rotoscope slo`: search for the most agents that a server takes within objectives."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from rotoscope.flags import with_flags
from rotoscope.loading import loading
from rotoscope.replay_flags import ReplayFlags, TracePaths
from rotoscope.replaying import say
from rotoscope.server_flags import ServerFlags, performing

if TYPE_CHECKING:
    from rotoscope.replayer.slo.objectives import Objective
    from rotoscope.replayer.slo.run import Searched

Ttft: TypeAlias = Annotated[
    str | None, typer.Option(help="Longest time to first token, of so many percent of the requests.", metavar="TIME")
]
Itl: TypeAlias = Annotated[
    str | None, typer.Option(help="Longest inter-token latency, the mean of an answer.", metavar="TIME")
]
Tpot: TypeAlias = Annotated[str | None, typer.Option(help="Longest time per output token.", metavar="TIME")]
Latency: TypeAlias = Annotated[str | None, typer.Option(help="Longest latency of a request.", metavar="TIME")]
JobLatency: TypeAlias = Annotated[str | None, typer.Option(help="Longest latency of a job.", metavar="TIME")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveFlags:
    """One field an objective: so many percent of a metric are within the time."""

    p50_ttft: Ttft = None
    p90_ttft: Ttft = None
    p95_ttft: Ttft = None
    p99_ttft: Ttft = None
    p50_itl: Itl = None
    p90_itl: Itl = None
    p95_itl: Itl = None
    p99_itl: Itl = None
    p50_tpot: Tpot = None
    p90_tpot: Tpot = None
    p95_tpot: Tpot = None
    p99_tpot: Tpot = None
    p50_latency: Latency = None
    p90_latency: Latency = None
    p95_latency: Latency = None
    p99_latency: Latency = None
    p50_job_latency: JobLatency = None
    p90_job_latency: JobLatency = None
    p95_job_latency: JobLatency = None
    p99_job_latency: JobLatency = None

    def limits_s(self) -> dict[str, float]:
        """Return the limits that are given, in seconds, by name."""
        from rotoscope.replayer.times import seconds

        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: seconds(text) for name, text in given.items() if text is not None}


@with_flags
def slo(
    paths: TracePaths,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the search; one that was broken off goes on there.")
    ],
    *,
    objectives: ObjectiveFlags,
    first: Annotated[int, typer.Option("--from", help="Agents to begin with.", min=1)] = 1,
    most: Annotated[int, typer.Option(help="Agents to end with.", min=1)] = 1024,
    repeats: Annotated[int, typer.Option(help="Runs at each number of agents; more than half decide.", min=1)] = 3,
    sessions_per_user: Annotated[int, typer.Option(help="Sessions of a run for each agent.", min=2)] = 4,
    server: ServerFlags,
    flags: ReplayFlags,
) -> None:
    """Find the most concurrent agents that a server takes within limits of percentiles, by bisection with repeats.

    None meets them, or what decided was not valid: exit code 3; interrupted: 130, and the same command goes on.

    Example: rotoscope slo traces --url http://127.0.0.1:8000 --p95-ttft 2s --p50-itl 50ms -o slo
    """
    with loading():
        from rotoscope.replayer.interruption import signals_raise
        from rotoscope.replayer.slo.objectives import objectives_of
        from rotoscope.replayer.slo.run import plan_search, search
        from rotoscope.traces.formats.recognise import corpus_called

    wanted = objectives_of(objectives.limits_s())
    place, settings = server.place()
    options = flags.options(place.any_url)
    labelled, shares = flags.opened(paths, say)
    traces = [opened.trace for opened in labelled]
    options = replace(options, mix=shares, corpus=corpus_called(labelled), sessions=sessions_per_user)
    plan = plan_search(
        traces,
        options,
        objectives=wanted,
        first=first,
        most=most,
        repeats=repeats,
        sessions_per_user=sessions_per_user,
        settings=settings,
        place=place,
    )
    with signals_raise():
        found = search(plan, options, folder=output, perform=performing(place, traces), say=say)
    _print(found, wanted, most=most)
    raise typer.Exit(found.exit_code)


def _print(found: Searched, objectives: tuple[Objective, ...], *, most: int) -> None:
    from rotoscope.replayer.slo.table import answer, headings, probe_rows
    from rotoscope.tables import print_table

    columns = headings(objectives)
    print_table(columns, probe_rows(found), right=range(2, len(columns) - 2))
    typer.echo()
    for sentence in answer(found, most=most):
        typer.echo(sentence)
    if found.is_simulated:
        typer.echo("\nsimulated: times are modelled, no model was computed")
