from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from rotoscope.flags import with_flags


@dataclass(frozen=True, kw_only=True)
class Flags:
    size: Annotated[int, typer.Option(help="How large.", min=1)] = 3
    name: Annotated[str | None, typer.Option(help="What it is called.")] = None


@with_flags
def say(
    word: Annotated[str, typer.Argument(help="What is said.")],
    *,
    flags: Flags,
    loud: Annotated[bool, typer.Option("--loud", help="Not softly.")] = False,
) -> None:
    """Say something."""
    typer.echo(f"{word} {flags} {loud}")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(say)
    return app


def test_fields_are_options_of_the_command(app: typer.Typer) -> None:
    told = CliRunner().invoke(app, ["hello", "--size", "5", "--name", "x", "--loud"]).output

    assert told == "hello Flags(size=5, name='x') True\n"


def test_fields_have_their_defaults_and_limits(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["hello"]).output == "hello Flags(size=3, name=None) False\n"
    assert CliRunner().invoke(app, ["hello", "--size", "0"]).exit_code == 2


def test_help_has_the_options_in_their_place_and_the_docstring(app: typer.Typer) -> None:
    told = CliRunner().invoke(app, ["--help"]).output

    assert "Say something." in told
    assert told.index("--size") < told.index("--name") < told.index("--loud")
