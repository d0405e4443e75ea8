"""The command line: one thin command a function, errors as one line on stderr with an exit code.

Exit codes: 0 done, 1 it failed, 2 wrong usage or unusable input, 3 measured but not valid, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from rotoscope import __version__
from rotoscope.commands.analyze import analyze
from rotoscope.commands.audit import audit
from rotoscope.commands.campaign import campaign
from rotoscope.commands.compare import compare
from rotoscope.commands.convert import convert
from rotoscope.commands.doctor import doctor
from rotoscope.commands.proxy import proxy
from rotoscope.commands.publish import publish
from rotoscope.commands.record import record
from rotoscope.commands.recover import recover
from rotoscope.commands.replay import replay
from rotoscope.commands.serve import serve
from rotoscope.commands.show import show
from rotoscope.commands.slo import slo
from rotoscope.commands.sweep import sweep

TRACEBACK_VARIABLE = "ROTOSCOPE_TRACEBACK"
"""Set to anything to see the traceback of an error instead of its one line."""

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def print_version(wanted: bool) -> None:
    """Print the version of the installed package and leave, when it was asked for."""
    if wanted:
        sys.stdout.write(f"rotoscope {__version__}\n")
        raise typer.Exit


@app.callback()
def rotoscope(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Record live agent runs without their content and replay them against any inference server."""


for command in (
    analyze,
    audit,
    campaign,
    compare,
    convert,
    doctor,
    proxy,
    publish,
    record,
    recover,
    replay,
    serve,
    show,
    slo,
    sweep,
):
    app.command(
        short_help=(command.__doc__ or "").split("\n")[0],  # whole; by itself the list of commands cuts it
        context_settings={
            "allow_interspersed_args": command is not record
        },  # options behind its COMMAND are that one's
    )(command)


def main() -> None:
    """Run the command line and exit with its code."""
    _open_closed_streams()
    try:
        with _warnings_shown():
            app()
    except BrokenPipeError:  # whoever read our output has gone, `| head` for one
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except Exception as error:  # the outermost loop: ours become one line, all others keep their traceback
        from rotoscope.traces.errors import RotoscopeError  # loads the traces package, which --help has no use for

        if not isinstance(error, RotoscopeError) or os.environ.get(TRACEBACK_VARIABLE):
            raise
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)


def _open_closed_streams() -> None:
    """Let streams that were closed before we began lead nowhere; Python has none in their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as we run


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Let what our own modules log reach stderr; other packages may log what passes through them."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.setLevel(logging.WARNING)
    ours = logging.getLogger("rotoscope")
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)
