"""`rotoscope campaign`: recordings of several processes under one key."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Action(StrEnum):
    """What to do with campaigns."""

    start = "start"
    list = "list"
    end = "end"


def campaign(
    action: Annotated[Action, typer.Argument(help="start, list or end.", metavar="ACTION")],
    name: Annotated[
        str | None, typer.Argument(help="Name of the campaign to start or end; it stands in no trace.", metavar="NAME")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="End it while recordings run; they keep the key in memory until they end.")
    ] = False,
) -> None:
    """Start, list or end campaigns: recordings of several processes whose shared prefixes have one id.

    Example: rotoscope campaign end nightly
    """
    import os

    from rotoscope.recorder.campaigns import Campaigns, campaigns_folder
    from rotoscope.traces.errors import UnusableInput

    campaigns = Campaigns(campaigns_folder(os.environ))
    match action, name:
        case Action.list, None:
            for known in campaigns.known():
                typer.echo(known)
        case Action.start, str(name):
            campaigns.start(name)
            typer.echo(f"campaign {name!r} begins: record with --campaign {name}")
        case Action.end, str(name):
            campaigns.end(name, force=force)
            typer.echo(f"campaign {name!r} has ended: its key is overwritten and removed")
        case _:
            raise UnusableInput("give 'list' alone, or 'start' or 'end' with the name of a campaign")
