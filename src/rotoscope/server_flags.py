"""The options of commands that replay several times: which server each replay is of, and how many sessions it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.loading import loading
from rotoscope.replaying import run_replay

if TYPE_CHECKING:
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.servers import Servers, Settings
    from rotoscope.replayer.summary import Summary
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

    def servers(self, settings: Settings) -> Servers:
        """Return where each replay finds its server."""
        with loading():
            from rotoscope.replayer.server_process import Patience
            from rotoscope.replayer.servers import Servers

        patience = Patience(ready_s=self.ready_timeout, stop_s=self.stop_timeout)
        return Servers.parse(url=self.url, command=self.server_command, settings=settings, patience=patience)


def on_servers(
    servers: Servers, traces: list[Trace], *, say: Callable[[str], None]
) -> Callable[[ReplayOptions, dict[str, str]], Summary]:
    """Return what replays the traces once, on a server with the settings given."""
    with loading():
        from rotoscope.replayer.server_command import CONCURRENCY

    def perform(options: ReplayOptions, settings: dict[str, str]) -> Summary:
        values = {**settings, CONCURRENCY: str(options.concurrency)}
        with servers.running(values, api_key=options.api_key, say=say) as url:
            return run_replay(traces, replace(options, url=url))

    return perform
