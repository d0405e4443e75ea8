"""`rotoscope audit`: prove that recordings and results may be shown to others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rotoscope.traces.audit import Audit
    from rotoscope.traces.audit_kinds import Kind

MOST_LINES = 50


def audit(
    paths: Annotated[list[Path], typer.Argument(help="Files, and folders with every file below them.", metavar="PATH")],
    canary: Annotated[
        Path | None,
        typer.Option(help="File of texts, one a line, that must not be found in any shape.", metavar="FILE"),
    ] = None,
    only_canaries: Annotated[
        bool, typer.Option("--only-canaries", help="Look for canaries only, in files of any kind.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Prove that recordings and results hold no content: known files, known fields, closed sets and dense ids only.

    Example: rotoscope audit recordings
    """
    from rotoscope.traces.audit import audit as run_audit
    from rotoscope.traces.canary import Canaries
    from rotoscope.traces.errors import RunFailed, UnusableInput
    from rotoscope.traces.phrases import counted

    if only_canaries and canary is None:
        raise UnusableInput("expected --canary FILE with --only-canaries")
    canaries = None if canary is None else Canaries.read(canary)
    done = run_audit(paths, kinds=_Kinds(), canaries=canaries, only_canaries=only_canaries)
    if as_json:
        typer.echo(json.dumps(done.as_dict(), indent=1))
    else:
        _print(done, was_searched=canaries is not None, was_checked=not only_canaries)
    if not done.is_clean:
        raise RunFailed(
            f"{counted(done.findings.total, 'finding')} in {counted(done.files, 'file')}: do not show them to others as they are"
        )


class _Kinds:
    """The kinds of files; what replays write is looked up only where a file is none of a recording, as it takes a second."""

    def __iter__(self) -> Iterator[Kind]:
        from rotoscope.traces.audit_kinds import TRACE_KINDS

        yield from TRACE_KINDS
        from rotoscope.replayer.result_files import RESULT_KINDS

        yield from RESULT_KINDS
        from rotoscope.replayer.sweep.files import SWEEP_KINDS

        yield from SWEEP_KINDS


def _print(done: Audit, *, was_searched: bool, was_checked: bool) -> None:
    from rotoscope.traces.phrases import counted

    for finding in done.findings.kept[:MOST_LINES]:
        typer.echo(str(finding))
    if done.findings.total > MOST_LINES:
        typer.echo(f"and {done.findings.total - MOST_LINES} more")
    names = list(done.findings.sorted_names())
    if names:
        typer.echo("names to look at, which may be public or not:")
    for kind, group in groupby(names, key=lambda item: item[0].kind):
        of_kind = list(group)
        for name, times in of_kind[:MOST_LINES]:
            typer.echo(f"  {kind}: {name.value} ({times})")
        if len(of_kind) > MOST_LINES:
            typer.echo(f"  {kind}: and {len(of_kind) - MOST_LINES} more, see --json")
    lines = list(done.census.lines())
    if lines:
        typer.echo("what the numbers tell:")
        for line in lines:
            typer.echo(f"  {line}")
    if done.is_clean:
        checked = ["every field is allowed"] if was_checked else []
        searched = ["no canary was found"] if was_searched else []
        typer.echo(f"clean: {counted(done.files, 'file')}, {' and '.join(checked + searched)}")
