"""`rotoscope doctor`: what a replay needs of a server, tried."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.options import KeyVariable, Model

if TYPE_CHECKING:
    from rotoscope.replayer.doctor.checks import Diagnosis


def doctor(
    url: Annotated[str, typer.Argument(help="Server, with or without /v1.", metavar="URL")],
    model: Model = None,
    engine: Annotated[str | None, typer.Option(help="What runs behind the URL; found out if not given.")] = None,
    timeout: Annotated[float, typer.Option(help="Longest time of one request in seconds.")] = 30.0,
    api_key_env: KeyVariable = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Try out on a server what a replay relies on, and print the options that fit it.

    Something makes results wrong: exit code 3; nobody answers: 1.

    Example: rotoscope doctor http://127.0.0.1:8000
    """
    from rotoscope.keys import api_key_in
    from rotoscope.replayer.doctor.examination import Examination, examine

    examination = Examination(
        url=url,
        model=model,
        engine=engine,
        timeout_s=timeout,
        api_key=api_key_in(api_key_env),
        api_key_env=api_key_env,
    )
    with _progress() as watch:
        diagnosis = examine(examination, watch=watch)
    _print(diagnosis, as_json=as_json)
    raise typer.Exit(diagnosis.exit_code)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield what shows on a terminal what is being done, in one line that is gone at the end."""
    if not sys.stderr.isatty():
        yield lambda doing: None
        return

    def show(doing: str) -> None:
        sys.stderr.write(f"\r\033[K{doing} ...")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _print(diagnosis: Diagnosis, *, as_json: bool) -> None:
    import orjson

    from rotoscope.tables import print_table

    if as_json:
        typer.echo(orjson.dumps(diagnosis.as_dict(), option=orjson.OPT_INDENT_2))
        return
    words = {"none": "-", "fail": "FAIL"}
    rows = [
        (check.name, words.get(check.verdict, check.verdict), check.seen, check.advice) for check in diagnosis.checks
    ]
    print_table(("check", "result", "what was seen", "what to do"), rows)
    if diagnosis.command:
        typer.echo(f"\n{diagnosis.command}")
