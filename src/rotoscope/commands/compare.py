"""`rotoscope compare`: tell whether two systems differ, from what replays left in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.loading import loading

if TYPE_CHECKING:
    from rotoscope.replayer.comparison.verdicts import Comparison


def compare(
    a: Annotated[Path, typer.Argument(help="Results of a replay, or a folder of several such or of a sweep.")],
    b: Annotated[Path, typer.Argument(help="The same of the other system.")],
    confidence: Annotated[
        float,
        typer.Option(help="Percent of such comparisons in which all intervals together hold.", min=50, max=99.9),
    ] = 95.0,
    fail_if_worse: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 if a verdict says that B is worse, by so many percent at least; 0 for any.",
            metavar="PERCENT",
            min=0,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON instead of tables.")] = False,
) -> None:
    """Compare two systems by their replays of the same traces, session by session, with a verdict only where they part.

    Runs that are not valid get no verdict: exit code 3.

    Example: rotoscope compare results/before results/after --confidence 99
    """
    with loading():
        from rotoscope.replayer.comparison.verdicts import compare

    done = compare(a, b, confidence_percent=confidence)
    _print(done, as_json=as_json)
    if done.exit_code == 0 and fail_if_worse is not None:
        if any(done.worse(fail_if_worse)):
            raise typer.Exit(1)
        if not done.is_told:
            raise typer.Exit(3)
    raise typer.Exit(done.exit_code)


def _print(comparison: Comparison, *, as_json: bool) -> None:
    import orjson

    from rotoscope.replayer.comparison import table
    from rotoscope.tables import fitted, print_table

    if as_json:
        typer.echo(orjson.dumps(comparison.as_dict(), option=orjson.OPT_INDENT_2))
        return
    for point in comparison.points:
        print_table(table.headings(comparison, point), table.number_rows(point), right=(1, 2))
        typer.echo()
        for headings, rows in (
            (table.JOB_HEADINGS, [*table.job_rows(point)]),
            (table.TRACE_HEADINGS, [*table.trace_rows(point)]),
        ):
            if rows:
                print_table(headings, rows, right=range(1, len(headings)))
                typer.echo()
    for text in table.sentences(comparison):
        typer.echo(fitted(text))
