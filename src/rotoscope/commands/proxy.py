"""`rotoscope proxy`: a gateway that stays, and makes a trace of each run that passes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rotoscope.options import Measure, NamesFile, NoUsageRequest, TokenizerName


class RunsBy(StrEnum):
    """What divides requests into runs."""

    session = "session"
    name = "name"


def proxy(
    upstream: Annotated[
        str | None,
        typer.Option(help="Base URL of the server behind the gateway; without it, that in OPENAI_BASE_URL."),
    ] = None,
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder for the traces.")] = Path("recordings"),
    port: Annotated[
        list[int] | None,
        typer.Option(
            help="Port to listen on, 8484 if not given; several, with a run each; 0 is a free one.", min=0, max=65535
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let other machines in, which must bring a token.")
    ] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token; without it, that in ROTOSCOPE_TOKEN.")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option(help="Campaign that the runs share with other recordings; else one of their own.")
    ] = None,
    tokenizer: TokenizerName = "auto",
    measure: Measure = False,
    no_usage_request: NoUsageRequest = False,
    runs_by: Annotated[
        RunsBy, typer.Option(help="Whether a client's own session is a run, or named runs only.")
    ] = RunsBy.session,
    names: NamesFile = None,
    idle: Annotated[float, typer.Option(help="Seconds without a request after which a run has ended.", min=1)] = 300.0,
) -> None:
    """Stand before a server until interrupted, and write a content-free trace of each run that passes.

    Example: rotoscope proxy --upstream http://localhost:8000/v1 --port 8484 -o recordings
    """
    import os

    from rotoscope.proxy.addresses import chosen_upstream
    from rotoscope.proxy.campaign import chosen_campaign
    from rotoscope.proxy.service import DRAIN_S, Service, chosen_door, serve
    from rotoscope.proxy.standing import Standing
    from rotoscope.recorder.campaigns import Campaign
    from rotoscope.recorder.names_file import names_file
    from rotoscope.recorder.token_counters import chosen_tokenizer

    chosen, counter = chosen_upstream(upstream, os.environ), chosen_tokenizer(tokenizer)
    door = chosen_door(host, allow_remote=allow_remote, token_file=token_file, environment=os.environ)
    with chosen_campaign(campaign, os.environ) as named:
        how = Standing(
            chosen,
            folder,
            named or Campaign(),
            measure=measure,
            tokenizer=counter,
            by_session=runs_by is RunsBy.session,
            idle_s=idle,
            host=host,
            ports=port or (8484,),
            door=door,
            drain_s=DRAIN_S,
            names=names_file(names, folder) if names else None,
            asks_usage=not no_usage_request,
        )
        status = serve(Service(how, campaign or ""))
    raise typer.Exit(status)
