"""The options of commands that replay several times: where each replay is measured."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.loading import loading
from rotoscope.replaying import say

if TYPE_CHECKING:
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.servers import Settings
    from rotoscope.replayer.summary import Summary
    from rotoscope.replayer.sweep.places import Perform, Place, Values
    from rotoscope.traces.model import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFlags:
    """One field an option."""

    url: Annotated[
        str | None, typer.Option(help="Server, with or without /v1; not needed where the command has {port}.")
    ] = None
    server_command: Annotated[
        str | None,
        typer.Option(
            help="Start this server for each replay and stop it after: words with {port} and {NAME} of each --set.",
            metavar="TEMPLATE",
        ),
    ] = None
    ready_timeout: Annotated[
        float, typer.Option(help="Longest time that it may take to be ready, in seconds.", metavar="S", min=0)
    ] = 600.0
    stop_timeout: Annotated[
        float, typer.Option(help="Time between SIGTERM and SIGKILL when it is stopped, in seconds.", metavar="S", min=0)
    ] = 20.0

    simulate: Annotated[
        bool, typer.Option("--simulate", help="No server, but the simulator in modelled time; its settings by --set.")
    ] = False
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Value of {NAME} in the server command; may be repeated.", metavar="NAME=V1,V2"),
    ] = None

    def place(self) -> tuple[Place, Settings]:
        """Return where each replay is measured, and the settings that it has."""
        with loading():
            from rotoscope.replayer.server_process import Patience
            from rotoscope.replayer.servers import Servers
            from rotoscope.replayer.sweep.places import OnServers, Simulated
            from rotoscope.replayer.sweep.settings import parse_settings
            from rotoscope.traces.errors import UnusableInput

        settings = parse_settings(self.settings or [])
        if self.simulate:
            if self.url is not None or self.server_command is not None:
                raise UnusableInput("a simulation has no server: leave --url and --server-command out, or --simulate")
            return Simulated(settings), settings
        patience = Patience(ready_s=self.ready_timeout, stop_s=self.stop_timeout)
        servers = Servers.parse(url=self.url, command=self.server_command, settings=settings, patience=patience)
        return OnServers(servers), settings


def performing(place: Place, traces: list[Trace]) -> Perform:
    """Return what replays the traces once at a place, with a line of progress on a terminal.

    A note that several replays have is said once; it is in the summary of each.
    """
    with loading():
        from rotoscope.replayer.notes import notes_once
        from rotoscope.replayer.progress import progress_line

    say_once = notes_once(say)

    def perform(options: ReplayOptions, values: Values) -> Summary:
        if not sys.stderr.isatty():
            return place.perform(traces, options, values, say=say_once, watch=None)
        with progress_line(sys.stderr) as show:
            return place.perform(traces, options, values, say=say_once, watch=show)

    return perform
